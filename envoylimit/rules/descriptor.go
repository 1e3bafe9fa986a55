package rules

import (
	"slices"
	"strings"
	"time"
)

// descriptors takes a list of descriptors in.
func (p *parser) descriptors(all []descriptor, into *level, at *place) error {
	for i := range all {
		if err := p.descriptor(&all[i], into, at); err != nil {
			return err
		}
	}
	return nil
}

// descriptor takes one descriptor in, with those within it.
func (p *parser) descriptor(d *descriptor, into *level, above *place) error {
	l := &level{key: d.Key.value, value: d.Value, share: d.Share, valueToMetric: d.ValueToMetric}
	if strings.Contains(l.value, "*") {
		l.parts = strings.Split(l.value, "*")
	}
	switch {
	case l.key == "":
		return p.bad(0, "give it a key", "a descriptor of %s has no key", above.id)
	case l.share && l.parts == nil:
		return p.bad(d.Key.line, "give it such a value or remove share_threshold",
			"share_threshold is for a value with *, but %q has none", l.value)
	case !into.add(l):
		return p.bad(d.Key.line, "remove one of the two",
			"the descriptor %q with value %q is there twice", l.key, l.value)
	}
	at := above.below(l)
	if d.Limit != nil {
		var err error
		if l.rule, err = p.rule(d, at); err != nil {
			return err
		}
		p.config.rules = append(p.config.rules, l.rule)
	}
	return p.descriptors(d.Descriptors, l, at)
}

// add puts a level below another, and reports whether there was none like it.
func (l *level) add(below *level) bool {
	if below.parts != nil {
		if slices.ContainsFunc(l.wild, func(o *level) bool { return o.key == below.key && o.value == below.value }) {
			return false
		}
		l.wild = append(l.wild, below)
		return true
	}
	e := Entry{Key: below.key, Value: below.value}
	if l.exact[e] != nil {
		return false
	}
	if l.exact == nil {
		l.exact = make(map[Entry]*level)
	}
	l.exact[e] = below
	return true
}

// rule returns the rule of the limit of a descriptor.
func (p *parser) rule(d *descriptor, at *place) (*Rule, error) {
	limit := d.Limit
	rule := &Rule{ID: at.id, Domain: at.domain, Name: limit.Name, Unlimited: limit.Unlimited, Open: at.open,
		Shadow: d.Shadow, Quota: d.Quota, detailed: d.Detailed}
	if limit.Requests != nil {
		rule.Requests = uint32(*limit.Requests)
	}
	if err := p.window(d, rule); err != nil {
		return nil, err
	}
	for _, other := range limit.Replaces {
		switch other.Name {
		case "":
			return nil, p.bad(d.Key.line, "name the limit to replace", "an entry of replaces has no name")
		case rule.Name:
			return nil, p.bad(d.Key.line, "name another limit", "the limit %q replaces itself", other.Name)
		}
		rule.Replaces = append(rule.Replaces, other.Name)
	}
	return rule, nil
}

// window finds out in which time the requests may pass.
func (p *parser) window(d *descriptor, rule *Rule) error {
	limit, line := d.Limit, d.Key.line
	unit, known := UnitNamed(limit.Unit)
	switch {
	case rule.Unlimited && known:
		return p.bad(line, "remove one of the two", "the limit has a unit and is unlimited")
	case rule.Unlimited:
		return nil
	case limit.Unit == "":
		return p.bad(line, "say second, minute, hour, day, week or month", "the limit has no unit")
	case !known:
		return p.bad(line, "say second, minute, hour, day, week or month", "the unit %q is unknown", limit.Unit)
	case limit.Requests == nil:
		return p.bad(line, "say how many, or 0 for none", "the limit has no requests_per_unit")
	}
	units := time.Duration(1)
	if limit.Multiplier != nil {
		units = time.Duration(*limit.Multiplier)
	}
	switch {
	case units == 0:
		return p.bad(line, "say 1 or more, or leave it out", "the window has no unit")
	case units > maxWindow/unit.Duration():
		return p.bad(line, "say month, with so much less of requests",
			"%d × %s is longer than 31 days, the longest window", units, unit)
	}
	rule.Unit, rule.Window = unit, units*unit.Duration()
	return nil
}
