package sim

import (
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/hist"
)

// Result is what happened while it was counted.
type Result struct {
	Elapsed time.Duration
	Allowed int64 // decisions
	Denied  int64
	// Stranded are the denials and late calls at whose end a shard had a permit
	// free and no participants to keep it for (P4 allows that while news of it is
	// on its way). It is an estimate for denials from memory.
	Stranded float64
	Local    int64     // denials from memory
	Late     int64     // calls that ended because they had waited too long; not among the decisions
	Overdue  int64     // script calls that took longer than half the call timeout
	Granted  int64     // permits, when the script granted them
	Vain     int64     // script calls that brought nothing
	Calls    []int64   // script calls of each node
	Got      []int64   // permits of each process, when it heard of them
	Latency  hist.Hist // of allowed decisions

	inspected, shutOut, wrongly int64
	stranded                    int64
}

// PerSecond is the rate of decisions, denials too.
func (r *Result) PerSecond() float64 {
	return float64(r.Allowed+r.Denied) / r.Elapsed.Seconds()
}

// AllCalls is how many script calls there were.
func (r *Result) AllCalls() (n int64) {
	for _, c := range r.Calls {
		n += c
	}
	return n
}

// Busiest is the load of the busiest node over the mean of all; 0 without load.
func (r *Result) Busiest() float64 {
	total := r.AllCalls()
	if total == 0 {
		return 0
	}
	return float64(slices.Max(r.Calls)) * float64(len(r.Calls)) / float64(total)
}

// Batch is how many decisions a script call served, on average; denials from
// memory need none.
func (r *Result) Batch() float64 {
	if r.AllCalls() == 0 {
		return 0
	}
	return float64(r.Allowed+r.Denied-r.Local) / float64(r.AllCalls())
}

// samples is how finely the latencies of asks that came over a while are spread.
const samples = 4

func (w *world) allowed(now int64, a asks) {
	if !w.counts || a.n == 0 {
		return
	}
	w.result.Allowed += a.n
	if a.from == a.to {
		w.result.Latency.Add(time.Duration(now-a.from), a.n)
		return
	}
	k := min(a.n, samples)
	for j := range k {
		asked := a.from + int64(float64(a.to-a.from)*(float64(j)+0.5)/float64(k))
		w.result.Latency.Add(time.Duration(now-asked), a.n/k+min(1, max(0, a.n%k-j)))
	}
}

// denied ends asks that no shard had a permit for.
func (w *world) denied(i int, now int64, a asks) {
	p := &w.fleet[i]
	p.unmet += a.n
	if p.rate == 0 {
		w.comeLater(p, i, now, a.n)
	}
	if !w.counts {
		return
	}
	w.result.Denied += a.n
	if a.done == 0 {
		w.result.Local += a.n
	} else if w.anyFree(now) {
		w.result.stranded += a.n
	}
}

// comeLater has callers of a closed loop try again when a shard is open again.
func (w *world) comeLater(p *process, i int, now, n int64) {
	p.open(now)
	at := max(now+1+int64(w.c.Reaction), p.opens)
	w.agenda.put(event{at: at, process: int32(i), what: comeback, n: int32(n)})
}

// late ends asks whose time was up before they were sent.
func (w *world) late(i int, now int64, a asks) {
	if p := &w.fleet[i]; p.rate == 0 {
		w.comeLater(p, i, now, a.n)
	}
	if !w.counts {
		return
	}
	w.result.Late += a.n
	if w.anyFree(now) {
		w.result.stranded += a.n
	}
}

func (w *world) anyFree(now int64) bool {
	return slices.ContainsFunc(w.vessels, func(v *vessel) bool { return !v.contended && v.free(now) > 0 })
}

// inspected asks what a call of some process would find now. Poisson arrivals
// see what an observer sees who comes at unrelated times, so the observer's
// count stands for denials from memory, whose exact times are not known.
func (w *world) inspected(now int64) {
	p := &w.fleet[w.rng.IntN(len(w.fleet))]
	w.result.inspected++
	if p.open(now) != 0 {
		return
	}
	w.result.shutOut++
	if w.anyFree(now) {
		w.result.wrongly++
	}
}

func (w *world) finish() *Result {
	w.drawArrivals(w.until)
	r := w.result
	for i := range w.nodes {
		before := int64(0)
		if w.counts {
			before = w.served[i]
		}
		r.Calls = append(r.Calls, w.nodes[i].calls-before)
	}
	r.Stranded = float64(r.stranded)
	if r.shutOut > 0 {
		r.Stranded += float64(r.Local) * float64(r.wrongly) / float64(r.shutOut)
	}
	return r
}
