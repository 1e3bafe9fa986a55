package dispatch

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// How long "nothing is free" is believed without asking again. The exact time
// is in the reply; the cap lets what comes back elsewhere, or a raised limit, be noticed.
const (
	shutCapMin = 10 * time.Millisecond
	shutCapMax = time.Second
	// earlyCap is how long where permits came back early in the last window.
	earlyCap = 250 * time.Millisecond
)

// Knowledge is what a process remembers of a shard from its last replies. All
// times are on the process' clock; reads take no lock. Each field is right by
// itself; they need not be of the same reply.
type Knowledge struct {
	mu        sync.Mutex   // held while a reply is taken in or forgotten
	sentAt    atomic.Int64 // when the call was sent that the last reply was to; 0: there was none
	answered  atomic.Int64 // when the last reply came
	usedAt    atomic.Int64 // when a reply last showed permits in the log, as time elapsed; 0 never
	free      atomic.Int64 // after the last reply
	Target    atomic.Int64 // by it: what the share is to be
	FreeAt    atomic.Int64 // if free is 0: when a permit comes back, counted from when the reply came
	shutUntil atomic.Int64 // until then nothing is free, counted from when the call was sent
	ResetAt   atomic.Int64 // when the shard is unused again
	closed    atomic.Int64 // until then it grants nothing, because its node lost its memory
	why       atomic.Int32 // telemetry.Reason why it refuses, by the last reply
	found
}

// found is how the last take found the state.
type found struct {
	Rare      atomic.Bool // other than proposed
	contended atomic.Bool // other only in that participants contend
	early     atomic.Bool // permits came back early in the last window
}

// learn takes in a reply to a call that was sent and answered at these times. Calls can overlap,
// and a reply that is taken in late tells of what was before: a call that was under way when the
// limit was raised must not shut the shard again. Of two calls that were under way together nobody
// knows which one the shard served first: if one of them found permits, the shard is asked again.
func (k *Knowledge) learn(sent, received int64, elapsed clock.Elapsed, t *Terms, r *script.TakeReply) {
	k.mu.Lock()
	defer k.mu.Unlock()
	unsure := sent < k.answered.Load() && k.free.Load() > 0
	k.answered.Store(max(k.answered.Load(), received))
	if sent < k.sentAt.Load() {
		if r.Free > 0 {
			k.open()
		}
		return
	}
	k.free.Store(r.Free)
	k.Target.Store(r.Target)
	k.early.Store(r.Early)
	k.ResetAt.Store(received + int64(r.Reset))
	k.sentAt.Store(sent)
	k.closed.Store(0)
	why := telemetry.Full
	switch {
	case r.Closed > 0:
		k.closed.Store(received + int64(r.Closed))
		why = telemetry.LostMemory
	case r.Owes(t.Proposal):
		why = telemetry.Owes
	}
	k.why.Store(int32(why))
	if r.Used > 0 {
		k.usedAt.Store(int64(elapsed))
	}
	if r.Free > 0 {
		k.shutUntil.Store(0)
		k.FreeAt.Store(0)
		return
	}
	limit := k.ShutCap(t.Window)
	next := r.Next
	if next <= 0 || r.Share < r.Target && r.Closed == 0 {
		// a share that is still on its way here can be greater at any time
		next = min(cmp.Or(max(next, 0), limit), limit, t.Window)
	}
	k.FreeAt.Store(received + int64(next))
	if unsure {
		next = 0
	}
	k.shutUntil.Store(sent + int64(min(next, limit)))
}

// ShutCap is how long it is believed at the most that the shard has nothing to give.
func (k *Knowledge) ShutCap(window time.Duration) time.Duration {
	longest := shutCapMax
	if k.early.Load() {
		longest = earlyCap
	}
	return min(max(window/10, shutCapMin), longest)
}

// Early reports whether permits came back early in the last window. So may others.
func (k *Knowledge) Early() bool { return k.early.Load() }

// Shut reports whether the shard is known to have nothing to give.
func (k *Knowledge) Shut(now int64) bool { return now < k.shutUntil.Load() }

// Free is what was free after the last reply; heard is false if there was none.
func (k *Knowledge) Free() (n int64, heard bool) { return k.free.Load(), k.sentAt.Load() != 0 }

// Closed reports whether the shard grants nothing now, because its node lost its memory.
func (k *Knowledge) Closed(now int64) bool { return now < k.closed.Load() }

// Why returns why the shard refuses, by its last reply.
func (k *Knowledge) Why() telemetry.Reason { return telemetry.Reason(k.why.Load()) }

// Answered reports whether a reply came at that time or later.
func (k *Knowledge) Answered(since int64) bool { return k.answered.Load() >= since }

// open forgets that the shard was out of permits, after some were given back.
func (k *Knowledge) open() { k.shutUntil.Store(0) }

// returned notes that permits were given back, what is free since, and whether that was early.
func (k *Knowledge) returned(free int64, early bool) {
	k.open()
	k.free.Store(free)
	k.early.Store(early)
}

// reset forgets usage, after the shard's log was cleared.
func (k *Knowledge) reset() {
	k.mu.Lock() // a reply that is taken in now must not be forgotten by half
	defer k.mu.Unlock()
	k.open()
	k.FreeAt.Store(0)
	k.closed.Store(0)
	k.ResetAt.Store(0)
	k.usedAt.Store(0)
}

// Denied is what a process remembers, without a Shard, of a shard that has nothing to give.
type Denied struct {
	until   int64 // that it is believed
	FreeAt  int64 // when a permit comes back
	ResetAt int64 // when the shard is unused again
	Target  int64 // what its share is to be
	Why     telemetry.Reason
}

// Denied returns what is to be remembered of a shard that is known to have nothing to give. ok is
// false if it has something, or lost its memory.
func (k *Knowledge) Denied(now int64) (d Denied, ok bool) {
	d = Denied{k.shutUntil.Load(), k.FreeAt.Load(), k.ResetAt.Load(), k.Target.Load(), k.Why()}
	return d, now < d.until && !k.Closed(now)
}

// Believe has a Shard that was not heard from know what was remembered without it.
func (sh *Shard) Believe(d *Denied) {
	k := &sh.Known
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sentAt.Load() != 0 {
		return
	}
	k.sentAt.Store(1) // before every call
	k.shutUntil.Store(d.until)
	k.FreeAt.Store(d.FreeAt)
	k.ResetAt.Store(d.ResetAt)
	k.Target.Store(d.Target)
	k.why.Store(int32(d.Why))
}

// Over reports whether it is believed no more.
func (d *Denied) Over(now int64) bool { return now >= d.until }
