package httplimit

import (
	"cmp"
	"slices"
)

// counters is how many keys a sketch counts at a time.
const counters = 128

// refusedKey is how often a key came: at least Calls - Over times, at most Calls.
type refusedKey struct {
	Key   string `json:"key"`
	Calls int64  `json:"calls"`
	Over  int64  `json:"over"`
}

// sketch counts which keys come most often, in bounded memory: Space-Saving, by A. Metwally,
// D. Agrawal and A. El Abbadi (2005). Of so many calls that it was told, Over is at most a
// counters-th part, and no key that came more often is missing.
type sketch struct {
	calls int64
	keys  []refusedKey
	at    map[string]int // places in keys
}

// add counts a call of a key. With no counter left it takes that of the key that came least.
func (s *sketch) add(key string) {
	s.calls++
	i, known := s.at[key]
	switch {
	case known:
	case len(s.keys) < counters:
		if s.at == nil {
			s.at = make(map[string]int, counters)
		}
		i = len(s.keys)
		s.keys = append(s.keys, refusedKey{Key: key})
		s.at[key] = i
	default:
		i = s.least()
		delete(s.at, s.keys[i].Key)
		s.keys[i].Key, s.keys[i].Over = key, s.keys[i].Calls
		s.at[key] = i
	}
	s.keys[i].Calls++
}

// least is the place of the key that came least.
func (s *sketch) least() (at int) {
	for i := range s.keys {
		if s.keys[i].Calls < s.keys[at].Calls {
			at = i
		}
	}
	return at
}

// unseen is how often a key may have come that has no counter.
func (s *sketch) unseen() int64 {
	if len(s.keys) < counters {
		return 0
	}
	return s.keys[s.least()].Calls
}

// top returns the keys of two sketches that came most often in both together, at most so many. It
// keeps to what Over may be of the sum.
func top(a, b *sketch, most int) []refusedKey {
	all := make([]refusedKey, 0, len(a.keys)+len(b.keys))
	for _, k := range a.keys {
		if i, both := b.at[k.Key]; both {
			k.Calls, k.Over = k.Calls+b.keys[i].Calls, k.Over+b.keys[i].Over
		} else {
			k.Calls, k.Over = k.Calls+b.unseen(), k.Over+b.unseen()
		}
		all = append(all, k)
	}
	for _, k := range b.keys {
		if _, both := a.at[k.Key]; !both {
			k.Calls, k.Over = k.Calls+a.unseen(), k.Over+a.unseen()
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(x, y refusedKey) int {
		return cmp.Or(cmp.Compare(y.Calls-y.Over, x.Calls-x.Over), cmp.Compare(y.Calls, x.Calls),
			cmp.Compare(x.Key, y.Key))
	})
	return all[:min(most, len(all))]
}
