package shardlimit

import (
	"time"

	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// Waiting is the number of callers in the line of a limiter, for the tests of
// this package.
func (l *Limiter) Waiting() int { return l.has().queue().len() }

// NotBefore is when the head of the line can be served at the earliest, 0 if
// that is not known.
func (l *Limiter) NotBefore() int64 {
	l.has().queue().mu.Lock()
	defer l.has().queue().mu.Unlock()
	return l.has().queue().notBefore
}

// Suspend is what becomes of a process whose machine was suspended for so long: its monotonic clock
// stood still but for a moment.
func (c *Client) Suspend(d time.Duration) { c.clock.Suspend(d) }

// Stop is what becomes of a process whose machine was stopped for so long by its hypervisor: both
// of its clocks stood still.
func (c *Client) Stop(d time.Duration) { c.clock.Stop(d) }

// RememberKeys is for how many keys the families that are opened next remember what this process
// knows.
func (c *Client) RememberKeys(n int) { c.familyKeys = n }

// Known is of how many keys the process has something.
func (f *Family) Known() int {
	n := len(f.keys.all())
	for i := range f.keys.parts {
		f.keys.parts[i].mu.Lock()
		n += len(f.keys.parts[i].denied)
		f.keys.parts[i].mu.Unlock()
	}
	return n
}

// HaltLease stops the timer that ends the current lease of the limiter.
func (l *Limiter) HaltLease() {
	if lease := l.has().leases.current.Load(); lease != nil {
		lease.timer.Stop()
	}
}

// Stale has the limiter believe that its layout was last confirmed too long ago.
func (l *Limiter) Stale() { l.has().core.record().Doubt() }

// PerParticipant drives a limit of Scope PerParticipant as other participants: it
// returns how many permits each of them was granted of n, and how many of them
// are remembered.
func (l *Limiter) PerParticipant(n int64, names ...string) (granted []int64, remembered int) {
	for _, name := range names {
		d := Decision{core: l.has().core}
		decideHere(l.has().core.members.of(newParticipant(name, 1)).alone(), &d, l.Limit(), n, true)
		granted = append(granted, d.Granted)
	}
	return granted, len(l.has().core.members.others)
}

// RecordNodes are the nodes that keep the records of the client's key prefix, as last heard.
func (c *Client) RecordNodes() []string { return c.records.Book.Nodes() }

// Participant is the name of the process.
func (l *Limiter) Participant() string { return l.core.client.cfg.Participant }

// Waiting is how many callers of Wait are in the line of a Set.
func (s *Set) Waiting() int { return s.line.Len() }

// NotBefore is when the head of the line can be served at the earliest.
func (s *Set) NotBefore() int64 { return s.notBefore.Load() }

// Forget makes the limiter ask Redis with its next call, whatever it knows to be empty.
func (l *Limiter) Forget() { l.has().forgetDenials(l.has().core.routes.Load()) }

// Paced is how long no shard wants to see this participant again.
func (l *Limiter) Paced() time.Duration {
	m := l.has()
	return m.view(l.has().core.routes.Load()).pause(l.has().core.client.now())
}

// LocalPermits is this process' part of the limit under FailLocal.
func LocalPermits(l *Limiter) int64 {
	return l.has().core.ownPart(l.has().core.routes.Load().limit).Permits
}

// PartOf is the part of the limit that each of so many processes has under FailLocal. The error
// tells that it is none that could be enforced.
func PartOf(limit Limit, processes int64) (Limit, error) {
	part := limit.dividedBy(processes)
	return part, part.validate()
}

// ErrorCode is what a span says of an error of Redis.
var ErrorCode = telemetry.ErrorCode

// Remembers is of how many shards the limiter keeps lanes, and its participant seats.
func (l *Limiter) Remembers() (lanes, seats int) {
	l.has().core.mu.Lock()
	lanes = len(l.has().core.lanes)
	l.has().core.mu.Unlock()
	l.has().mu.Lock()
	defer l.has().mu.Unlock()
	return lanes, len(l.has().seats)
}

// has is what the process has of the limit now.
func (l *Limiter) has() *member {
	m := l.hold()
	defer m.core.release()
	return m
}
