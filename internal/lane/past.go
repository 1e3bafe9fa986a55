package lane

import (
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// pastPart bounds how late permits count as granted: a window divided by this.
const pastPart = 32

// sameLoss is by how much two replies of a shard that is shut may differ about when it opens, and
// by as much as the call took, if they tell of the same loss. If they differ by more for another
// reason, it is reminded once more in vain.
const sameLoss = 100 * time.Millisecond

// past is what this process was granted by a shard, as far as it may still be in use: that is what
// the process reminds the shard of if that loses its memory. It is kept only under terms that say
// so, in bounded memory: see [script.MaxGranted]. Times are on the process' clock. Where they are
// not exact they are too late: nothing may be forgotten while it is in use.
type past struct {
	mu    sync.Mutex
	cells []cell // by until
	sum   int64  // of their permits
	added int64  // when the last of them came
	less  int64  // when a reply came last that said that fewer were in use
	full  refill // of a bucket
	known int64  // the loss of which the shard was reminded, or there was nothing to tell: see script.RemindReply
	heard int64  // the loss of which it told last
	lost  int64  // what was granted before this time, it may have forgotten
	asked int64  // when the reminder was sent that is under way
	opens int64  // when a shard that was heard to be shut opens again
	doubt bool   // the shard may have lost its memory, and was not reminded since
	busy  bool   // a reminder is under way or waits

	// As time elapsed. met: when a call was sent to which the shard answered, or another one of its
	// server that would have told of a loss. absent: when it was last found absent, 0 if it has
	// answered since.
	met, absent int64
}

// refill is what a reply told of a bucket.
type refill struct {
	at            int64 // when it is full again
	under         int64 // what the reply told of a loss
	epoch, window int64 // of the call
	share         int64 // at another rate the bucket fills sooner or later
}

// same reports whether two are at the same rate.
func (r refill) same(share, window int64) bool { return r.share == share && r.window == window }

// cell is permits that count as used until the same instant: when the last of them could be used.
type cell struct {
	since        int64 // when the first of them was granted
	first, until int64 // when the first and the last of them could be used
	permits      int64
	under        int64 // what the replies told of a loss: see script.Granted
}

// add notes that a reply has granted n permits, and what it told of a loss, and reports whether
// there was nothing before.
func (p *past) add(held span, under, received, n int64, window time.Duration) (first bool) {
	at, due := held.since, held.due
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(received - int64(window))
	first = len(p.cells) == 0
	p.added, p.sum = max(p.added, received), p.sum+n
	near, i := int64(window/pastPart), len(p.cells)
	for i > 0 && p.cells[i-1].until > due {
		i--
	}
	if i > 0 {
		if c := &p.cells[i-1]; due-c.first <= near && at-c.since <= near && c.under == under {
			c.until, c.since, c.permits = due, min(c.since, at), c.permits+n
			return first
		}
	}
	p.cells = slices.Insert(p.cells, i, cell{since: at, first: due, until: due, permits: n, under: under})
	if len(p.cells) > script.MaxGranted { // the two that are free first become one
		c, oldest := &p.cells[1], p.cells[0]
		c.since, c.first, c.permits = min(c.since, oldest.since), oldest.first, c.permits+oldest.permits
		c.under = oldest.under // if there was a loss in between, too much is told of it, and not too little
		p.cells = slices.Delete(p.cells, 0, 1)
	}
	return first
}

// drop forgets what could be used last at this time or before. p.mu is held.
func (p *past) drop(until int64) {
	gone := 0
	for gone < len(p.cells) && p.cells[gone].until <= until {
		p.sum -= p.cells[gone].permits
		gone++
	}
	p.cells = slices.Delete(p.cells, 0, gone)
}

// used takes in what the shard said that was in use by the instant, beside what it granted, in
// reply to a call that was sent and received at these times. All that is noted until then is in
// that, or is in use no more: the shard was cleared, or it is dated too late. What was granted
// first has left first.
func (p *past) used(sent, received, by, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sent < p.added || p.doubt || len(p.cells) > 0 && p.cells[len(p.cells)-1].until > by {
		return // the shard may not have granted or counted all of it, or does not know of it any more
	}
	for n = max(n, 0); p.sum > n; p.less = received {
		less := min(p.sum-n, p.cells[0].permits)
		p.take(0, less)
	}
}

// take takes permits off a cell. p.mu is held.
func (p *past) take(i int, n int64) {
	p.sum -= n
	if p.cells[i].permits -= n; p.cells[i].permits == 0 {
		p.cells = slices.Delete(p.cells, i, i+1)
	}
}

// refunded notes that n of the permits were given back that came at this time. Of two cells in
// which they may be, it takes the one that is free first. A bucket is full so much sooner, unless a
// reply that came since the refund was sent may have told that already.
func (p *past) refunded(at, n, sent int64, sooner time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sent >= p.added {
		p.full.at = max(p.full.at-int64(sooner), 0)
	}
	if sent <= p.less { // it may have been told already that these are not in use
		return
	}
	for i := range p.cells {
		if p.cells[i].since <= at && at <= p.cells[i].until {
			p.take(i, min(n, p.cells[i].permits))
			return
		}
	}
}

// fills notes when a bucket is full again, as the reply said to a call that was sent at this time,
// and reports whether it was full before.
func (p *past) fills(sent, received int64, full refill) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first = p.full.at <= received && full.at > received
	// Others may have been granted more, or the shard may not know of it any more.
	unsure := (sent < p.added || p.doubt) && p.full.at > full.at
	same := p.full.same(full.share, full.window)
	if p.full.epoch < full.epoch && !same || p.full.epoch <= full.epoch && !unsure {
		p.full = full
	}
	p.added = max(p.added, received)
	return first
}

// clear forgets all: nothing is in use any more.
func (p *past) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cells, p.sum, p.full, p.doubt, p.absent = nil, 0, refill{}, false, 0
}

// holds reports whether there is anything of which the shard had to be reminded.
func (p *past) holds(now int64, t *Terms) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.remains(now, t)
}

// remains is holds with p.mu held. It forgets when a bucket was to be full at another rate: that
// would empty it for longer.
func (p *past) remains(now int64, t *Terms) bool {
	p.drop(now - int64(t.Window))
	if p.full.epoch < t.Epoch && !p.full.same(t.Share, int64(t.Window)) {
		p.full = refill{}
	}
	return len(p.cells) > 0 || p.full.at > now
}

// answer is what a reply tells of a loss: when its call was sent, by the process' clock and as time
// elapsed, when it came, for how long the shard is shut, and what tells one loss from another.
type answer struct {
	sent, elapsed, received int64
	shut                    time.Duration
	closing                 int64
}

// meets notes that the shard answered to a call, and reports whether it is to be reminded now: it
// says that it is shut, or was since permits were granted, or nothing was heard of it or of others
// beside it for about as long as a shard listens.
func (p *past) meets(a answer, t *Terms) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	gap := time.Duration(a.elapsed - p.met)
	p.met, p.absent = max(p.met, a.elapsed), 0
	holds := p.remains(a.received, t)
	lost := p.hears(a, holds)
	if !holds {
		return false
	}
	listens := script.Listening(t.Window)
	lost = lost || gap > listens*3/4
	opens := a.received + int64(a.shut)
	same := min(listens/16, sameLoss) + time.Duration(a.received-a.sent)
	if a.shut > 0 && time.Duration(opens-p.opens).Abs() > same {
		p.opens, lost = opens, true
	}
	p.doubt = p.doubt || lost
	return lost
}

// hears takes in of which loss an open shard tells, and reports whether that is news: something was
// granted before. p.mu is held.
func (p *past) hears(a answer, holds bool) (lost bool) {
	if a.closing == 0 || a.closing == p.heard {
		return false
	}
	p.heard = a.closing
	older := func(c cell) bool { return c.under != a.closing }
	if !holds || !slices.ContainsFunc(p.cells, older) && (p.full.at <= a.received || p.full.under == a.closing) {
		p.known = a.closing
		return false
	}
	p.lost = max(p.lost, a.sent)
	return p.known != a.closing
}

// forgotten reports whether the shard may have forgotten, or be reminded of together with others',
// what was granted at this time.
func (p *past) forgotten(at int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return at < p.lost
}

// doubts notes that the shard may have lost its memory.
func (p *past) doubts() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubt = true
}

// spare notes that another shard of the server answered to a call that was sent at this time, and
// that the server had lost nothing.
func (p *past) spare(elapsed int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.doubt {
		p.met = max(p.met, elapsed)
	}
}

// claim reports whether a reminder may be made: none is under way or waits. The one that was told
// so has to call release.
func (p *past) claim() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy {
		return false
	}
	p.busy = true
	return true
}

func (p *past) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = false
}

// begin returns what the shard is to be reminded of; ok is false if there is nothing.
func (p *past) begin(now int64, t *Terms) (r script.RemindRequest, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.remains(now, t) {
		return r, false
	}
	p.asked = now
	r = script.RemindRequest{Known: p.known, Full: time.Duration(max(p.full.at-now, 0)), Share: p.full.share,
		Window: time.Duration(p.full.window), Under: p.full.under}
	for _, c := range p.cells {
		r.Grants = append(r.Grants, script.Granted{
			Under: c.under, Age: time.Duration(now - c.until), Permits: min(c.permits, script.MaxPermits),
		})
	}
	return r, true
}

// end takes in how the reminder ended that was sent at this time, as time elapsed, and reports
// whether the shard had lost its memory. now is when the reply came. A shard that had is in doubt
// until reminded is called. One that is absent stays so: whoever creates it may not know what this
// process was granted. That it is absent may be a loss, but only when it is found so first.
func (p *past) end(elapsed, now int64, r script.RemindReply, err error) (lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		return false
	case r.Status == script.Absent:
		lost = p.absent == 0
		p.absent, p.doubt = elapsed, true
		return lost
	}
	lost = r.Closing != 0 && r.Closing != p.known
	p.added, p.absent, p.doubt = max(p.added, now), 0, lost
	if lost {
		if p.known = r.Closing; p.heard != r.Closing {
			p.heard, p.lost = r.Closing, max(p.lost, p.asked)
		}
	} else {
		p.met = max(p.met, elapsed)
	}
	return lost
}

// reminded notes that the others of the server were told that it had lost its memory, as a reminder
// that was sent at this time has shown.
func (p *past) reminded(elapsed int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.absent == 0 {
		p.met, p.doubt = max(p.met, elapsed), false
	}
}

// due reports whether the shard has to be asked whether it has lost its memory, although others of
// its server were heard so late as it, or later. One that is absent is asked half as often.
func (p *past) due(elapsed int64, pace time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.doubt && (p.absent == 0 || time.Duration(elapsed-p.absent) > pace*3/2)
}

// witnesses tells when the shard was heard of; ok is false if it cannot tell of its server.
func (p *past) witnesses() (met int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.met, !p.doubt
}
