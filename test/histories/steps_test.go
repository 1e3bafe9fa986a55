package histories

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// deeds are what steps do.
var deeds = map[string]func(*world, step){
	"rest":     (*world).idle,
	"call":     (*world).call,
	"take":     (*world).take,
	"together": (*world).together,
	"set":      (*world).set,
	"bring":    (*world).bring,
	"revise":   (*world).revise,
	"nodes":    (*world).place,
	"move":     (*world).takeOut,
	"place":    (*world).place,
	"delete":   (*world).remove,
	"reserve":  (*world).reserve,
	"repay":    (*world).repay,
	"suspend":  (*world).suspend,
	"kill":     (*world).kill,
	"start":    (*world).restart,
	"lose":     (*world).lose,
	"save":     (*world).save,
	"restore":  (*world).restore,
	"flush":    (*world).lose,
	"restart":  (*world).lose,
	"clock":    (*world).clock,
	"down":     (*world).down,
	"link":     (*world).link,
	"stall":    (*world).stall,
	"retire":   (*world).takeOut,
	"declare":  (*world).declare,
	"join":     (*world).join,
	"settle":   (*world).settle,
	"hold":     (*world).hold,
	"free":     (*world).free,
}

// play carries the plan out and judges what came of it.
func (w *world) play() {
	for _, s := range w.plan.Steps {
		if w.over() {
			w.did("cut short")
			break
		}
		do := deeds[s.Do]
		if do == nil {
			panic("no such step: " + s.Do)
		}
		if w.did(s.Do); s.Mode != "" {
			w.did(s.Do + " " + s.Mode)
		}
		if s.Aside {
			w.wg.Go(func() { do(w, s) })
		} else {
			do(w, s)
		}
		time.Sleep(s.Then)
	}
	w.close()
	for _, l := range w.limit {
		l.judge()
	}
	w.judgeSlots()
}

// who is the process and the limit of a step, and a handle; nil if the process cannot act.
func (w *world) who(s step) (*process, *watched, *shardlimit.Limiter) {
	p, l := w.procs[s.P%len(w.procs)], w.limit[s.L%len(w.limit)]
	if !p.works() {
		return p, l, nil
	}
	return p, l, p.handle(l)
}

// event notes something after which the limit must hold.
func (w *world) event(do string, limits ...*watched) {
	if limits == nil {
		limits = w.limit
	}
	for _, l := range limits {
		if _, before := l.events[do]; !before {
			l.events[do] = w.now()
		}
		l.fresh = false
		if do != "bring" && do != "set" {
			l.again(w.now())
		}
	}
}

// callers has so many callers at once act so many times each, with pauses, as long as they can.
func callers(s step, act func(caller, turn int) (can bool)) {
	var wg sync.WaitGroup
	for i := range s.N {
		wg.Go(func() {
			for j := 0; j < max(s.Times, 1) && act(i, j); j++ {
				time.Sleep(s.For)
			}
		})
	}
	wg.Wait()
}

// call has many callers at once.
func (w *world) call(s step) {
	p, l, h := w.who(s)
	if h == nil {
		return
	}
	callers(s, func(i, _ int) bool {
		from, size := h, max(s.Size, 1)
		switch s.Mode {
		case "tenants":
			from = h.As(fmt.Sprint("t", i), 1)
		case "sizes":
			size = 1 + int64(i)%max(s.Size, 1)
		}
		w.ask(p, l, from, s.Mode, size)
		return p.works()
	})
}

// ask makes one call and notes how it ended.
func (w *world) ask(p *process, l *watched, h *shardlimit.Limiter, mode string, size int64) shardlimit.Decision {
	start := w.now()
	w.mu.Lock()
	if start-p.asked > int64(time.Minute) {
		p.woke = start
	}
	p.asked = start
	w.mu.Unlock()
	var d shardlimit.Decision
	var err error
	ctx := context.Background()
	if m := h.Limit().Mode; m != shardlimit.Enforced {
		d, err = h.AllowUpTo(ctx, size)
		if err == nil && (m == shardlimit.Off && d.Granted != size || m == shardlimit.Closed && d.Granted > 0) {
			w.found("mode", "l%d: a call by p%d was granted %d of %d permits of a limit that is %v", l.number, p.number,
				d.Granted, size, m)
		}
		return shardlimit.Decision{}
	}
	switch mode {
	case "wait":
		if p.plan.Outage != shardlimit.FailClosed {
			return d // it does not tell whether the outage policy decided
		}
		if err = h.WaitN(w.within(max(2*l.current().Per, time.Second)), size); err == nil {
			d = shardlimit.Decision{Allowed: true, Granted: size}
		}
		l.used(p, h)
		p.record(l, start, d, err)
		return d
	case "upto":
		d, err = h.AllowUpTo(ctx, size)
	case "allow", "tenants":
		d, err = h.Allow(ctx)
	default:
		d, err = h.AllowN(ctx, min(size, h.Limit().Permits))
	}
	p.judgeAnswer(l, start, d, err)
	l.used(p, h)
	if i := p.record(l, start, d, err); i >= 0 {
		w.mu.Lock()
		if len(p.kept) < 16 {
			p.kept = append(p.kept, kept{l, i, d, h})
		}
		w.mu.Unlock()
	}
	return d
}

// take uses up what there is.
func (w *world) take(s step) {
	p, l, h := w.who(s)
	if h == nil {
		return
	}
	for range 4 {
		if d := w.ask(p, l, h, "upto", 2*l.most()); d.Granted == 0 {
			return
		}
	}
}

func (w *world) reserve(s step) {
	p, l, h := w.who(s)
	if h == nil || p.plan.Outage != shardlimit.FailClosed || h.Limit().Mode != shardlimit.Enforced {
		return
	}
	ctx, sent := w.within(2*l.current().Per+time.Second), w.now()
	r, err := h.Reserve(ctx, min(max(s.Size, 1), h.Limit().Permits))
	if err != nil || r.Degraded() || !p.works() {
		return
	}
	received, delay := w.now(), r.Delay()
	if s.Mode == "cancel" && delay > 0 {
		time.Sleep(min(s.For, delay/2))
		_ = r.Cancel(ctx)
		return // who cancels uses nothing, even if nobody tells what came of it
	}
	w.mu.Lock()
	l.ops = append(l.ops, history.Op{Start: sent + int64(delay), End: received + int64(delay), Permits: r.Permits()})
	l.books(sent, received+int64(delay))
	w.mu.Unlock()
}

// repay settles something of what the process got: for nothing, for half and then for nothing, by
// another process, or for more than it got.
func (w *world) repay(s step) {
	p, _, h := w.who(s)
	if h == nil {
		return
	}
	w.mu.Lock()
	all := p.kept
	p.kept = nil
	w.mu.Unlock()
	for i, k := range all {
		if i%4 == 0 || len(k.on.ops) <= k.op || k.from.Name() != k.on.name() && !k.on.plan.Family {
			continue
		}
		used := []int64{0, 0, k.decision.Granted - k.decision.Granted/4, k.decision.Granted + 1 + int64(i)%7}[i%4]
		if used > k.decision.Granted && k.on.current().Algorithm > shardlimit.FixedWindow {
			used = k.decision.Granted / 2 // a bucket may take longer than its window to pay
		}
		w.mu.Lock()
		k.on.ops[k.op].Permits = min(used, k.decision.Granted) // nobody has used more of them
		w.mu.Unlock()
		by, what := k.from, k.decision
		if other := w.procs[(p.number+1)%len(w.procs)]; i%3 == 0 && other.works() {
			if there := other.handle(k.on); there != nil && there.Name() == k.from.Name() {
				text, err := k.decision.MarshalText()
				if err == nil {
					err = what.UnmarshalText(text)
				}
				if err != nil {
					w.found("settle", "a decision of p%d: %v", p.number, err)
				}
				by = there
			}
		}
		err := by.Settle(context.Background(), what, used)
		if err == nil && used > 0 && used != k.decision.Granted { // to settle just what was granted does nothing
			_ = k.from.Settle(context.Background(), k.decision, 0) // once more, for less
		}
	}
}

// settle waits until whatever moves has arrived, with a call now and then, and then until nothing
// is in use. What a node had that does not answer yet moves later: when one that uses the limit has
// noticed that it is back.
func (w *world) settle(s step) {
	p, l, h := w.who(s)
	if h == nil || !p.lists() {
		return
	}
	w.wg.Wait()
	window := l.longest()
	for range 12 {
		w.rest((3*window + 60*time.Second) / 12)
		w.ask(p, l, h, "allow", 1)
	}
	w.rest(2*window + time.Second)
	l.fresh = !w.over() && !p.cut() && !l.doubt.open // in doubt, who rested may bring another layout
}

// fills is how long it takes until an empty bucket is full.
func fills(l shardlimit.Limit) time.Duration {
	return time.Duration(limittest.MostAtOnce(l) * int64(l.Per) / l.Permits)
}

// first asks for the first permit after a rest. If that ends in an error, which was judged by
// itself, it asks again: the process had breakers open, or is far from nodes. So it does after
// buckets that may have begun empty, each when it was first asked, have had the time to fill.
func (w *world) first(p *process, l *watched, h *shardlimit.Limiter) shardlimit.Decision {
	d := w.ask(p, l, h, "allow", 1)
	if d.Limit == 0 {
		w.rest(time.Second)
		d = w.ask(p, l, h, "allow", 1)
	}
	if l.moves() && l.current().Algorithm == shardlimit.TokenBucket {
		w.ask(p, l, h, "upto", limittest.MostAtOnce(l.current()))
		w.rest(fills(l.current()) + time.Second)
		d = w.ask(p, l, h, "allow", 1)
	}
	return d
}

// free tells whether what is free is had: after a rest, by a process that is alone.
func (w *world) free(s step) {
	p, l, h := w.who(s)
	if h == nil || !l.fresh || h.Limit().Mode != shardlimit.Enforced {
		return
	}
	w.wg.Wait()
	w.rest(max(2*l.longest(), s.For))
	// What one that was suspended learnt meanwhile, as its timers went on here, lies in its future
	// now.
	if !p.works() || !p.lists() || w.over() || p.suspended != 0 {
		return
	}
	at := w.now()
	w.did("free, judged")
	d := w.first(p, l, h)
	if d.Granted == 0 && !p.cut() && !w.over() { // else nodes answer no more
		w.found("denied", "p%d was denied the first permit of l%d after a rest of %s, at %s", p.number, l.number,
			max(2*l.longest(), s.For), time.Duration(at))
		return
	}
	w.rest(100 * time.Millisecond) // if the shard has told it of another limit, it has read that by then
	limit := h.Limit()
	if limit.Lease > 0 {
		return
	}
	if l.came && d.Limit > 0 { // a limit of a higher revision may be in force
		limit.Permits = d.Limit
	}
	most, got := limittest.MostAtOnce(limit), atomic.Int64{}
	callers(step{N: int(most) - 1}, func(int, int) bool {
		got.Add(w.ask(p, l, h, "allow", 1).Granted)
		return false
	})
	if got.Load() < most-1 && p.near(l) && !p.cut() && !w.over() {
		w.found("stranded", "p%d was granted %d of %d permits of l%d that were free, at %s",
			p.number, got.Load()+1, most, l.number, time.Duration(at))
	}
}
