package histories

import (
	"slices"
	"time"
)

// shrink returns the shortest history it finds that shows a finding of that kind, and the finding,
// nil if the history itself does not show it. One is played three times before it is believed to
// show nothing.
func shrink(s *stage, p *plan, kind string, most time.Duration) (*plan, *finding) {
	shows := func(p *plan) (found *finding) {
		for tries := 0; tries < 3 && found == nil; tries++ {
			found = s.play(order{Plan: p, Twice: kind == anotherWay}).shows(kind)
		}
		return found
	}
	until := time.Now().Add(most)
	found := shows(p)
	// try has a history take the place of the one so far, if it shows the same.
	try := func(other plan) bool {
		f := shows(&other)
		if f != nil {
			p, found = &other, f
		}
		return f != nil
	}
	for size, before := max(len(p.Steps)/2, 1), 0; found != nil; size = max(size/2, 1) {
		before = len(p.Steps)
		for at := 0; at < len(p.Steps) && time.Now().Before(until); {
			shorter := *p
			shorter.Steps = slices.Delete(slices.Clone(p.Steps), at, min(at+size, len(p.Steps)))
			if !try(shorter) {
				at += size
			}
		}
		if time.Now().After(until) || size == 1 && len(p.Steps) == before {
			break
		}
	}
	for i := 0; found != nil && i < len(p.Steps); i++ {
		for _, simpler := range []func(*step){
			func(s *step) { s.N = max(s.N/2, min(s.N, 1)) }, func(s *step) { s.N = min(s.N, 1) },
			func(s *step) { s.Times = min(s.Times, 1) }, func(s *step) { s.Aside = false },
			func(s *step) { s.Then = 0 },
		} {
			changed := *p
			changed.Steps = slices.Clone(p.Steps)
			simpler(&changed.Steps[i])
			if time.Now().Before(until) && changed.Steps[i].String() != p.Steps[i].String() {
				try(changed)
			}
		}
	}
	return p, found
}
