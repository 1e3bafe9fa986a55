package rules

import (
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// descriptors takes a list of descriptors in.
func (p *parser) descriptors(n *yaml.Node, into *level, at *place) error {
	items, err := p.list(n, "descriptors")
	if err != nil {
		return err
	}
	if len(items) > 0 && at.depth == MaxDepth {
		return p.bad(n, "nest fewer", "descriptors are nested more than %d deep", MaxDepth)
	}
	for _, item := range items {
		if p.count++; p.count > MaxDescriptors {
			return p.bad(item, "leave some out", "there are more than %d descriptors", MaxDescriptors)
		}
		if err := p.descriptor(item, into, at); err != nil {
			return err
		}
	}
	return nil
}

// descriptor takes one descriptor in, with those within it.
func (p *parser) descriptor(n *yaml.Node, into *level, above *place) error {
	f, err := p.fields(n, "a descriptor", "key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode",
		"detailed_metric", "value_to_metric", "share_threshold", "metadata")
	if err != nil {
		return err
	}
	l := &level{}
	if l.key, err = p.text(f["key"]); err != nil {
		return err
	}
	if l.key == "" {
		return p.bad(n, "give it a key", "the descriptor has no key")
	}
	if l.value, err = p.text(f["value"]); err != nil {
		return err
	}
	if strings.Contains(l.value, "*") {
		l.parts = strings.Split(l.value, "*")
	}
	flags := map[string]*bool{"value_to_metric": &l.valueToMetric, "share_threshold": &l.share}
	rule := &Rule{Domain: above.domain}
	flags["shadow_mode"], flags["quota_mode"], flags["detailed_metric"] = &rule.Shadow, &rule.Quota, &rule.detailed
	for name, flag := range flags {
		if err := p.flag(f[name], flag); err != nil {
			return err
		}
	}
	if l.share && l.parts == nil {
		return p.bad(f["share_threshold"], "give it such a value or remove share_threshold",
			"share_threshold is for a value with *, but %q has none", l.value)
	}
	if err := p.add(n, l, into); err != nil {
		return err
	}
	at := above.below(l)
	if err := p.limit(f["rate_limit"], l, rule, at); err != nil {
		return err
	}
	return p.descriptors(f["descriptors"], l, at)
}

// add puts a level below another.
func (p *parser) add(n *yaml.Node, l, into *level) error {
	twice := func() error {
		return p.bad(n, "remove one of the two", "the descriptor %q with value %q is there twice", l.key, l.value)
	}
	switch {
	case l.value == "":
		if into.open[l.key] != nil {
			return twice()
		}
		if into.open == nil {
			into.open = make(map[string]*level)
		}
		into.open[l.key] = l
	case l.parts != nil:
		for _, other := range into.wild {
			if other.key == l.key && other.value == l.value {
				return twice()
			}
		}
		into.wild = append(into.wild, l)
	default:
		e := Entry{Key: l.key, Value: l.value}
		if into.exact[e] != nil {
			return twice()
		}
		if into.exact == nil {
			into.exact = make(map[Entry]*level)
		}
		into.exact[e] = l
	}
	return nil
}

// limit takes a rate_limit in.
func (p *parser) limit(n *yaml.Node, l *level, rule *Rule, at *place) error {
	if absent(n) {
		return nil
	}
	f, err := p.fields(n, "rate_limit", "unit", "unit_multiplier", "requests_per_unit",
		"unlimited", "name", "replaces")
	if err != nil {
		return err
	}
	if err := p.flag(f["unlimited"], &rule.Unlimited); err != nil {
		return err
	}
	if err := p.rate(n, f, rule); err != nil {
		return err
	}
	if rule.Name, err = p.text(f["name"]); err != nil {
		return err
	}
	if err := p.replaces(f["replaces"], rule); err != nil {
		return err
	}
	rule.ID, rule.Open = at.id, at.open
	if !at.varies && !(rule.detailed && at.open) {
		rule.metric = at.metric
	}
	l.rule = rule
	p.config.rules = append(p.config.rules, rule)
	return nil
}

// rate reads how many requests may pass in which time.
func (p *parser) rate(n *yaml.Node, f map[string]*yaml.Node, rule *Rule) error {
	name, err := p.text(f["unit"])
	if err != nil {
		return err
	}
	unit, known := UnitNamed(name)
	switch {
	case rule.Unlimited && known:
		return p.bad(f["unit"], "remove one of the two", "the limit has a unit and is unlimited")
	case rule.Unlimited:
		return p.number(f["requests_per_unit"], &rule.Requests)
	case name == "":
		return p.bad(n, "say second, minute, hour, day, week or month", "the limit has no unit")
	case !known:
		return p.bad(f["unit"], "say second, minute, hour, day, week or month", "the unit %q is unknown", name)
	case absent(f["requests_per_unit"]):
		return p.bad(n, "say how many, or 0 for none", "the limit has no requests_per_unit")
	}
	units := uint32(1)
	if err := p.number(f["unit_multiplier"], &units); err != nil {
		return err
	}
	rule.Unit, rule.Window = unit, time.Duration(units)*unit.Duration()
	switch {
	case units == 0:
		return p.bad(f["unit_multiplier"], "say 1 or more, or leave it out", "the window has no unit")
	case time.Duration(units) > maxWindow/unit.Duration():
		return p.bad(f["unit"], "say month, with so much less of requests",
			"%d × %s is longer than 31 days, the longest window", units, unit)
	}
	return p.number(f["requests_per_unit"], &rule.Requests)
}

// replaces reads the names of other rules.
func (p *parser) replaces(n *yaml.Node, rule *Rule) error {
	items, err := p.list(n, "replaces")
	if err != nil {
		return err
	}
	for _, item := range items {
		f, err := p.fields(item, "an entry of replaces", "name")
		if err != nil {
			return err
		}
		name, err := p.text(f["name"])
		switch {
		case err != nil:
			return err
		case name == "":
			return p.bad(item, "name the limit to replace", "an entry of replaces has no name")
		case name == rule.Name:
			return p.bad(item, "name another limit", "the limit %q replaces itself", name)
		}
		rule.Replaces = append(rule.Replaces, name)
	}
	return nil
}
