package rules

import (
	"fmt"

	"gopkg.in/yaml.v3"
)

// file is a file of a configuration as it is written.
type file struct {
	Domain      text
	Descriptors []descriptor
}

type descriptor struct {
	Key           text
	Value         string
	Limit         *rateLimit `yaml:"rate_limit"`
	Descriptors   []descriptor
	Shadow        bool      `yaml:"shadow_mode"`
	Quota         bool      `yaml:"quota_mode"`
	Detailed      bool      `yaml:"detailed_metric"`
	ValueToMetric bool      `yaml:"value_to_metric"`
	Share         bool      `yaml:"share_threshold"`
	Metadata      yaml.Node // for people
}

type rateLimit struct {
	Unit       string
	Multiplier *count `yaml:"unit_multiplier"`
	Requests   *count `yaml:"requests_per_unit"`
	Unlimited  bool
	Name       string
	Replaces   []struct{ Name string }
}

// text is a scalar, and where it stands.
type text struct {
	value string
	line  int
}

// UnmarshalYAML takes a scalar as it is written, so that numbers need no quotes.
func (t *text) UnmarshalYAML(n *yaml.Node) error {
	t.line = n.Line
	return n.Decode(&t.value)
}

// count is a whole number of 32 bits.
type count uint32

// UnmarshalYAML refuses fractions, which yaml would cut.
func (c *count) UnmarshalYAML(n *yaml.Node) error {
	if n.ShortTag() == "!!float" || n.Decode((*uint32)(c)) != nil {
		return &yaml.TypeError{Errors: []string{
			fmt.Sprintf("line %d: %q is no whole number from 0 to 4294967295", n.Line, n.Value)}}
	}
	return nil
}
