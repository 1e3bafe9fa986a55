package histories

import (
	"context"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit"
)

// together has callers ask all limits at once, each for another number of permits, and settle some
// of what they got.
func (w *world) together(s step) {
	p, _, h := w.who(s)
	if h == nil {
		return
	}
	callers(s, func(i, j int) bool { return w.askAll(p, s, i+j) })
}

// askAll makes one call on a Set, and reports false if the process cannot.
func (w *world) askAll(p *process, s step, turn int) bool {
	var asked []*shardlimit.Limiter
	var parts []shardlimit.Part
	var got []int64
	for i, l := range w.limit {
		if !p.works() {
			return false
		}
		h := p.handle(l)
		if h == nil || h.Limit().Mode != shardlimit.Enforced {
			return false
		}
		n := min((s.Size+int64(turn*(i+1)))%6, h.Limit().Permits)
		asked, parts, got = append(asked, h), append(parts, h.N(n)), append(got, n)
	}
	ask, set := (*shardlimit.Set).Allow, shardlimit.All(parts...)
	if s.Mode == "wait" {
		ask = (*shardlimit.Set).Acquire
	}
	start := w.now()
	d, err := ask(set, w.within(time.Minute))
	each, used, settles := set.Each(d), slices.Clone(got), err == nil && d.Allowed && turn%3 == 0
	for i, l := range w.limit {
		var said shardlimit.Decision
		if d.Allowed {
			said = each[i]
			if said.Granted != got[i] && !said.Degraded {
				w.found("set", "p%d was granted %d of %d permits of l%d", p.number, said.Granted, got[i], l.number)
			}
			if s.Mode == "wait" {
				said.Delay = 0 // it has slept until then
			}
		}
		l.used(p, asked[i])
		op := p.record(l, start, said, err)
		if used[i] /= int64(1 + (turn+i)%3); settles && op >= 0 {
			w.mu.Lock()
			l.ops[op].Permits = used[i] // nobody has used more of them
			w.mu.Unlock()
		}
	}
	if settles {
		_ = set.Settle(context.Background(), d, used...)
	}
	return p.works()
}

// sets has every third history ask limits together, after all else was drawn.
func (d *drawing) sets() {
	if !d.oneIn(3) {
		return
	}
	for range 1 + d.IntN(3) {
		per := d.plan.Limits[0].Limit.Per
		s := step{Do: "together", Mode: pick(d, "allow", "wait"), P: d.who(), N: 1 + d.IntN(6), Times: 1 + d.IntN(12),
			Size: d.Int64N(6), For: per / 16, Aside: d.oneIn(2)}
		if d.plan.Procs[s.P].Outage != shardlimit.FailClosed {
			s.Mode = "allow" // Each tells what the outage policy decided, but who waits hears it late
		}
		d.insert(s)
	}
}
