package histories

import (
	"slices"
	"time"

	"github.com/shardlimit/shardlimit"
)

// The slots of a world, beside its limits.
const (
	slotsThere  = 3
	slotMaxHold = 5 * time.Second
)

// held is for how long somebody had a slot, as far as its process knew.
type held struct{ from, to int64 }

// hold has callers of a process take slots, and release or extend them, or leave them.
func (w *world) hold(s step) {
	p := w.procs[s.P%len(w.procs)]
	if !p.works() || p.plan.Outage != shardlimit.FailClosed {
		return
	}
	ctx := w.within(time.Minute)
	slots, err := p.client.Slots(ctx, "slots", slotsThere, slotMaxHold)
	if err != nil {
		return
	}
	callers(step{N: s.N, Times: s.Times}, func(i, j int) bool {
		slot, err := slots.Acquire(ctx)
		if err != nil {
			return false
		}
		end := func() int64 { return int64(slot.Until().Sub(w.begun)) }
		had := held{w.now(), end()}
		for range (i + j) % 3 {
			time.Sleep(s.For)
			if slot.Extend(ctx) != nil {
				break
			}
			had.to = end()
		}
		time.Sleep(s.For)
		if (i+j)%5 != 4 {
			had.to = min(had.to, w.now())
			_ = slot.Release(ctx)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.slots = append(w.slots, had)
		return true
	})
}

// judgeSlots looks for an instant at which too many were held, unless a node forgot, its clock was
// set, or a process could not know that it stood still.
func (w *world) judgeSlots() {
	if slices.ContainsFunc(w.plan.Steps, func(s step) bool {
		return slices.Contains([]string{"clock", "restore", "flush", "restart", "lose", "retire"}, s.Do) ||
			s.Do == "suspend" && s.Mode != ""
	}) {
		return
	}
	for _, one := range w.slots {
		n := 0
		for _, o := range w.slots {
			if o.from <= one.from && one.from < o.to {
				n++
			}
		}
		if n > slotsThere && one.from < one.to {
			w.found("over", "%d of %d slots were held at %s", n, slotsThere, time.Duration(one.from))
			return
		}
	}
	if len(w.slots) > 0 {
		w.did("hold, judged")
	}
}

// holds has processes hold slots beside all else.
func (d *drawing) holds() {
	if !d.oneIn(4) {
		return
	}
	for range 1 + d.IntN(4) {
		d.insert(step{Do: "hold", P: d.who(), N: 1 + d.IntN(4), Times: 1 + d.IntN(8),
			For: pick(d, 10*time.Millisecond, 100*time.Millisecond, time.Second, slotMaxHold), Aside: d.oneIn(2)})
	}
}
