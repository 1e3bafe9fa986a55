package histories

import (
	"slices"
	"time"
)

// shrinking makes a history shorter as long as it shows the same.
type shrinking struct {
	stage *stage
	kind  string
	until time.Time
	tries int // how often a history is played before it is believed to show nothing
}

// shrink returns the shortest history it finds that shows a finding of that kind, and the finding.
func shrink(s *stage, p *plan, kind string, most time.Duration) (*plan, finding, bool) {
	k := &shrinking{stage: s, kind: kind, until: time.Now().Add(most), tries: 3}
	found, ok := k.shows(p)
	if !ok {
		return p, finding{}, false
	}
	for size := max(len(p.Steps)/2, 1); ; size = max(size/2, 1) {
		before := len(p.Steps)
		for at := 0; at < len(p.Steps) && time.Now().Before(k.until); {
			shorter := *p
			shorter.Steps = slices.Delete(slices.Clone(p.Steps), at, min(at+size, len(p.Steps)))
			if f, ok := k.shows(&shorter); ok {
				p, found = &shorter, f
			} else {
				at += size
			}
		}
		if time.Now().After(k.until) || size == 1 && len(p.Steps) == before {
			break
		}
	}
	for i := range p.Steps {
		for _, simpler := range []func(*step){
			func(s *step) { s.N = s.N / 2 }, func(s *step) { s.N = 1 }, func(s *step) { s.Times = 1 },
			func(s *step) { s.Aside = false }, func(s *step) { s.Then = 0 },
		} {
			changed := *p
			changed.Steps = slices.Clone(p.Steps)
			simpler(&changed.Steps[i])
			if s := changed.Steps[i]; time.Now().After(k.until) || s.String() == p.Steps[i].String() ||
				s.Do == "call" && s.N == 0 {
				continue
			}
			if f, ok := k.shows(&changed); ok {
				p, found = &changed, f
			}
		}
	}
	return p, found, true
}

func (k *shrinking) shows(p *plan) (finding, bool) {
	for range k.tries {
		r, err := k.stage.play(order{Plan: p, Twice: k.kind == anotherWay})
		if err != nil {
			return finding{}, false
		}
		for _, f := range r.Failed {
			for _, found := range f.Findings {
				if found.Kind == k.kind {
					return found, true
				}
			}
		}
	}
	return finding{}, false
}
