package rules

import "time"

// Rule is the limit of one place in a configuration. It must not be changed.
type Rule struct {
	// ID tells the rule from all others, and stays the same while its limit changes. It is the
	// domain and the path, such as messaging/message_type=marketing/to_number, where % / and = of
	// keys and values are escaped as in a URL.
	ID string
	// Domain that the rule belongs to.
	Domain string
	// Name by which other rules replace it; "" if none.
	Name string
	// Replaces are the names of rules that do not count in a request to which this one applies.
	Replaces []string
	// Requests that may pass per Window; 0 lets none pass.
	Requests uint32
	// Unit of time that answers tell; 0 if Unlimited.
	Unit Unit
	// Window is the Unit, times unit_multiplier: at most 31 days; 0 if Unlimited.
	Window time.Duration
	// Unlimited lets everything pass, and counts it.
	Unlimited bool
	// Open means that the limit holds for each of many values by itself, see Match.Key.
	Open bool
	// Shadow rules decide and count, but refuse nothing.
	Shadow bool
	// Quota rules refuse a request only if all rules of the request that are Quota do.
	Quota bool

	detailed bool // metrics tell each value apart
}

// Entry is a part of a descriptor.
type Entry struct{ Key, Value string }

// Match is the rule that a descriptor falls under.
type Match struct {
	*Rule
	// Key is what the limit holds for by itself, of an Open rule: the value that the rule leaves
	// open, such as ann. Several have / between, and %, / and = of each are escaped as in ID. A
	// value that is empty, or begins with a quote, has one before it. "" if the rule is not Open.
	Key string
	// Metric is how metrics name the rule: keys, and values that the rule gives, such as
	// message_type_marketing.to_number; with detailed_metric and value_to_metric also others.
	Metric string
}

// Config is a set of rules. It is immutable, and safe for concurrent use.
type Config struct {
	domains map[string]*level
	rules   []*Rule
}

// Rules are all rules, in the order of the files. The slice must not be changed.
func (c *Config) Rules() []*Rule { return c.rules }

// Known reports whether there is such a domain.
func (c *Config) Known(domain string) bool { return c.domains[domain] != nil }

// level is one place in the tree of a domain.
type level struct {
	key, value    string // value "" is open, one with * a pattern
	parts         []string
	share         bool
	valueToMetric bool

	rule  *Rule            // nil if it has no limit
	exact map[Entry]*level // by key and value; the value "" is open
	wild  []*level         // values with *, in the order of the file
}

// among finds the level below that an entry belongs to: that of its value, else the first pattern
// that fits, else that of its key alone.
func (l *level) among(e Entry) *level {
	if next := l.exact[e]; next != nil && e.Value != "" {
		return next
	}
	for _, next := range l.wild {
		if next.key == e.Key && fits(next.parts, e.Value) {
			return next
		}
	}
	return l.exact[Entry{Key: e.Key}]
}

// varies reports whether each value at this level has a limit of its own.
func (l *level) varies() bool { return l.value == "" || l.parts != nil && !l.share }
