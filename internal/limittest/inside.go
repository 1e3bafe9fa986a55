package limittest

import (
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/inside"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// Waiting returns how many callers stand in the line of a limiter.
func Waiting(of *shardlimit.Limiter) int {
	if q := has(of).Waiting.Load(); q != nil {
		return (*q).Len()
	}
	return 0
}

// NotBefore returns when the head of the line can be served at the earliest, 0 if that is not
// known.
func NotBefore(of *shardlimit.Limiter) int64 {
	if q := has(of).Waiting.Load(); q != nil {
		return (*q).(interface{ NotBefore() int64 }).NotBefore()
	}
	return 0
}

// Suspend is what becomes of a process whose machine was suspended for so long: its monotonic clock
// stood still but for a moment.
func Suspend(c *shardlimit.Client, d time.Duration) { inside.Client(c).Clock.Suspend(d) }

// Stop is what becomes of a process whose machine was stopped for so long by its hypervisor: both
// of its clocks stood still.
func Stop(c *shardlimit.Client, d time.Duration) { inside.Client(c).Clock.Stop(d) }

// RememberKeys is for how many keys the families that are opened next remember what the process
// knows.
func RememberKeys(c *shardlimit.Client, n int) { inside.Client(c).FamilyKeys = n }

// RecordNodes returns the nodes that keep the records of the client's key prefix, as last heard.
func RecordNodes(c *shardlimit.Client) []string { return inside.Client(c).Records.Book.Known().Names }

// Known returns of how many keys the process has something.
func Known(f *shardlimit.Family) int { return inside.Family(f).Known() }

// Participant returns the name of the process.
func Participant(l *shardlimit.Limiter) string {
	return inside.Limiter(l).Target.Process.Config.Participant
}

// Remembers returns of how many shards the limiter knows something, and its participant.
func Remembers(l *shardlimit.Limiter) (shards, accounts int) {
	m := has(l)
	return len(m.Target.Shards), len(m.Accounts)
}

// Paced returns how long no shard wants to see the participant again.
func Paced(l *shardlimit.Limiter) time.Duration {
	m := has(l)
	return m.View(m.Target.Routes.Load()).Pause(m.Target.Process.Now())
}

// ForgetDenials makes the limiter ask Redis with its next call, whatever it knows to be empty.
func ForgetDenials(l *shardlimit.Limiter) {
	m := has(l)
	m.ForgetDenials(m.Target.Routes.Load())
}

// DoubtLayout has the limiter believe that its layout was last confirmed too long ago.
func DoubtLayout(l *shardlimit.Limiter) { has(l).Target.Record().Doubt() }

// HaltLease stops the timer that ends the current lease of the limiter.
func HaltLease(l *shardlimit.Limiter) {
	if lease := has(l).Leases.Current.Load(); lease != nil {
		lease.Timer.Stop()
	}
}

// PartOf returns the permits and the burst that each of so many processes has of a limit under
// FailLocal. The error tells that it is none that could be enforced.
func PartOf(of shardlimit.Limit, processes int64) (shardlimit.Limit, error) {
	part := limit.Limit{Permits: of.Permits, Per: of.Per, Algorithm: limit.Algorithm(of.Algorithm),
		Burst: of.Burst}.DividedBy(processes)
	of.Permits, of.Burst = part.Permits, part.Burst
	return of, part.Validate()
}

// has returns what the process has of the limit now.
func has(l *shardlimit.Limiter) *call.Member {
	m := inside.Limiter(l).Hold()
	defer m.Target.Release()
	return m
}
