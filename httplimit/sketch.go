package httplimit

import (
	"cmp"
	"slices"
)

// counters is how many keys a sketch counts at a time.
const counters = 512

// refusedKey is how often a key of a limit came: at least Calls - Over times, at most Calls.
type refusedKey struct {
	Limiter string `json:"limiter"`
	Key     string `json:"key"`
	Calls   int64  `json:"calls"`
	Over    int64  `json:"over"`
}

// sketch counts which keys come most often, in bounded memory: Space-Saving, by A. Metwally,
// D. Agrawal and A. El Abbadi (2005). Of so many calls that it was told, Over is at most a
// counters-th part, and no key that came more often is missing.
type sketch struct {
	keys []refusedKey
	at   map[[2]string]int // places in keys, by limiter and key
}

// add counts a call of a key. With no counter left it takes that of the key that came least.
func (s *sketch) add(limiter, key string) {
	i, known := s.at[[2]string{limiter, key}]
	if !known {
		i = len(s.keys)
		fresh := refusedKey{Limiter: limiter, Key: key}
		if i < counters {
			s.keys = append(s.keys, fresh)
		} else {
			i = s.least()
			least := s.keys[i]
			delete(s.at, [2]string{least.Limiter, least.Key})
			fresh.Calls, fresh.Over = least.Calls, least.Calls
			s.keys[i] = fresh
		}
		if s.at == nil {
			s.at = make(map[[2]string]int)
		}
		s.at[[2]string{limiter, key}] = i
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

// top returns the keys that came most often, at most so many.
func (s *sketch) top(most int) []refusedKey {
	all := append([]refusedKey{}, s.keys...)
	slices.SortFunc(all, func(x, y refusedKey) int {
		return cmp.Or(cmp.Compare(y.Calls-y.Over, x.Calls-x.Over), cmp.Compare(y.Calls, x.Calls),
			cmp.Compare(x.Limiter, y.Limiter), cmp.Compare(x.Key, y.Key))
	})
	return all[:min(most, len(all))]
}
