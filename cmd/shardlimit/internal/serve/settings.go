package serve

import "gopkg.in/yaml.v3"

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
func ParseSettings(path string, content []byte) (s Settings, err error) {
	f := file(path)
	top, err := f.read(content)
	if err != nil {
		return Settings{}, err
	}
	if top.Kind != yaml.MappingNode {
		return Settings{}, f.invalid(top, "the file is not a mapping, such as listen: 127.0.0.1:8080")
	}
	return s, f.each(top, func(name, value *yaml.Node) (err error) {
		if name.Value == "limits" {
			s.Limits, err = f.limits(value)
			return err
		}
		flag := Setting{Name: name.Value, Line: name.Line}
		elements := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			elements = value.Content
		}
		for _, e := range elements {
			if e.Kind != yaml.ScalarNode || e.Tag == "!!null" {
				return f.invalid(e, "%s is neither a value nor a list of values", name.Value)
			}
			flag.Values = append(flag.Values, e.Value)
		}
		s.Flags = append(s.Flags, flag)
		return nil
	})
}
