package serve

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// Settings is a file that says what else the command line says.
type Settings struct {
	Limits []Declaration
	Flags  []Setting // in the order of the file
}

// Setting is what a file says of one flag.
type Setting struct {
	Name   string
	Values []string // one, or the elements of a list
	Line   int
}

// ParseSettings reads a file of settings: a mapping in YAML (or JSON) from names of flags to values
// or lists of values. Under limits is a list of limits, as ParseFile reads it. Whether there are
// such flags is up to the caller. The error is ErrInvalidFile, in one line.
func ParseSettings(content []byte) (Settings, error) {
	var root yaml.Node
	if err := readYAML(content, &root); err != nil {
		return Settings{}, err
	}
	top := root.Content[0]
	if top.Kind != yaml.MappingNode {
		return Settings{}, invalid("line %d: the file is not a mapping, such as listen: 127.0.0.1:8080", top.Line)
	}
	var s Settings
	seen := map[string]bool{}
	for i := 0; i < len(top.Content); i += 2 {
		name, value := top.Content[i], top.Content[i+1]
		if seen[name.Value] {
			return Settings{}, invalid("line %d: %q is there twice", name.Line, name.Value)
		}
		seen[name.Value] = true
		if err := s.add(name, value); err != nil {
			return Settings{}, err
		}
	}
	return s, nil
}

func (s *Settings) add(name, value *yaml.Node) (err error) {
	if name.Value == "limits" {
		s.Limits, err = limitsOf(value)
		return err
	}
	flag := Setting{Name: name.Value, Line: name.Line}
	elements := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		elements = value.Content
	}
	for _, e := range elements {
		if e.Kind != yaml.ScalarNode || e.Tag == "!!null" {
			return invalid("line %d: %s is neither a value nor a list of values", e.Line, name.Value)
		}
		flag.Values = append(flag.Values, e.Value)
	}
	s.Flags = append(s.Flags, flag)
	return nil
}

// limitsOf reads limits within a file. Each is written out once more, as only whole documents are
// checked for unknown fields.
func limitsOf(value *yaml.Node) ([]Declaration, error) {
	if value.Kind != yaml.SequenceNode {
		return nil, invalid("line %d: limits is not a list, such as [{name: mails, rate: 500/s}]", value.Line)
	}
	all := make([]entry, len(value.Content))
	for i, node := range value.Content {
		text, err := yaml.Marshal(node)
		if err == nil {
			err = readYAML(text, &all[i])
		}
		if err != nil {
			_, what, _ := strings.Cut(err.Error(), ": ") // behind the line in the copy
			return nil, invalid("line %d: %s", node.Line, what)
		}
	}
	return declarations(all)
}
