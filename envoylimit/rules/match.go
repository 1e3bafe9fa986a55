package rules

import "strings"

// Match finds the rule for a descriptor, and reports whether there is one. At each level the value
// goes before a pattern and a pattern before the key alone. The descriptor must be as deep as the
// rule. The first choice of a level is final: there is no second try on another branch.
func (c *Config) Match(domain string, descriptor []Entry) (Match, bool) {
	at := c.domains[domain]
	if at == nil || len(descriptor) == 0 {
		return Match{}, false
	}
	var few [8]*level
	path := few[:0]
	for _, e := range descriptor {
		if at = at.among(e); at == nil {
			return Match{}, false
		}
		path = append(path, at)
	}
	if at.rule == nil {
		return Match{}, false
	}
	m := Match{Rule: at.rule, Metric: metricOf(path, descriptor, at.rule.detailed)}
	if m.Open {
		m.Key = keyOf(path, descriptor)
	}
	return m, true
}

// keyOf is the value that a rule leaves open. Of several it is all of them with / between, escaped
// as in ID, so that no two lists of values are alike. No key is "".
func keyOf(path []*level, descriptor []Entry) string {
	var few [8]string
	open := few[:0]
	for i, l := range path {
		if l.varies() {
			open = append(open, descriptor[i].Value)
		}
	}
	if len(open) == 1 {
		if open[0] == "" || open[0][0] == '"' {
			return `"` + open[0]
		}
		return open[0]
	}
	for i, value := range open {
		open[i] = escape(value)
	}
	return strings.Join(open, "/")
}

// Path is the ID that a rule with these keys and values would have.
func Path(domain string, descriptor []Entry) string {
	id := escape(domain)
	for _, e := range descriptor {
		id += "/" + escape(e.Key) + "=" + escape(e.Value)
	}
	return id
}

// metricOf is how metrics name a rule.
func metricOf(path []*level, descriptor []Entry, detailed bool) string {
	name := ""
	for i, l := range path {
		value := l.value
		if l.varies() && (detailed || l.valueToMetric) {
			value = descriptor[i].Value
		}
		if i > 0 {
			name += "."
		}
		if name += l.key; value != "" {
			name += "_" + value
		}
	}
	return name
}

// fits reports whether a value is that of a pattern. parts is what stands around its stars, of
// which each stands for any text, also none.
func fits(parts []string, value string) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(value) < len(first)+len(last) || !strings.HasPrefix(value, first) || !strings.HasSuffix(value, last) {
		return false
	}
	value = value[len(first) : len(value)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(value, part)
		if at < 0 {
			return false
		}
		value = value[at+len(part):]
	}
	return true
}
