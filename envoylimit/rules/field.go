package rules

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// absent reports whether nothing is there.
func absent(n *yaml.Node) bool { return n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// meant is what an alias stands for.
func meant(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// fields are those of a mapping. Others than the known ones are an error.
func (p *parser) fields(n *yaml.Node, what string, known ...string) (map[string]*yaml.Node, error) {
	if n.Kind != yaml.MappingNode {
		return nil, p.bad(n, "write key: value", "%s is not a mapping", what)
	}
	f := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		switch {
		case name.Kind != yaml.ScalarNode || name.Tag != "!!str" || !slices.Contains(known, name.Value):
			return nil, p.bad(name, "use one of "+strings.Join(known, ", "), "%s has no field %q", what, name.Value)
		case f[name.Value] != nil:
			return nil, p.bad(name, "remove one of the two", "%s has the field %q twice", what, name.Value)
		}
		f[name.Value] = meant(n.Content[i+1])
	}
	return f, nil
}

// list is the mappings of a sequence; none if nothing is there.
func (p *parser) list(n *yaml.Node, what string) ([]*yaml.Node, error) {
	if absent(n) {
		return nil, nil
	}
	if n.Kind != yaml.SequenceNode {
		return nil, p.bad(n, "begin each entry with -", "%s is not a list", what)
	}
	items := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		items[i] = meant(item)
	}
	return items, nil
}

// text is a scalar as it is written, so that numbers need no quotes; "" if nothing is there.
func (p *parser) text(n *yaml.Node) (string, error) {
	if absent(n) {
		return "", nil
	}
	if n.Kind != yaml.ScalarNode {
		return "", p.bad(n, "write a text", "a list or mapping stands where a text belongs")
	}
	return n.Value, nil
}

func (p *parser) flag(n *yaml.Node, to *bool) error {
	return p.decode(n, to, "true or false")
}

func (p *parser) number(n *yaml.Node, to *uint32) error {
	const whole = "a whole number from 0 to 4294967295"
	if !absent(n) && n.ShortTag() == "!!float" { // which would be cut
		return p.bad(n, "write "+whole, "%q does not fit here", n.Value)
	}
	return p.decode(n, to, whole)
}

// decode leaves what is absent as it is.
func (p *parser) decode(n *yaml.Node, to any, what string) error {
	if absent(n) || n.Decode(to) == nil {
		return nil
	}
	return p.bad(n, "write "+what, "%q does not fit here", n.Value)
}
