package call

import (
	"time"

	"github.com/shardlimit/shardlimit/internal/limit"
)

// This file is what tests of other packages see of a process, and change in it.

// RememberKeys has the families that are opened next remember so many keys.
func (c *Client) RememberKeys(n int) { c.familyKeys = n }

// Known returns of how many keys the process has something.
func (f *Family) Known() int {
	n := len(f.keys.all())
	for i := range f.keys.parts {
		f.keys.parts[i].mu.Lock()
		n += len(f.keys.parts[i].denied)
		f.keys.parts[i].mu.Unlock()
	}
	return n
}

// HaltLease stops the timer that ends the current lease.
func (l *Limiter) HaltLease() {
	if lease := l.has().Leases.Current.Load(); lease != nil {
		lease.timer.Stop()
	}
}

// Doubt has the limiter believe that its layout was last confirmed too long ago.
func (l *Limiter) Doubt() { l.has().Target.Record().Doubt() }

// DecideFor has a limit of Scope PerParticipant decide for a participant. It returns what was
// granted of n, and how many participants are remembered.
func (l *Limiter) DecideFor(name string, n int64) (granted int64, remembered int) {
	c := l.has().Target
	d := Decision{Origin: Origin{Target: c}}
	of := l.Limit()
	decideHere(c.Members.of(limit.NewParticipant(name, 1)).alone(), &d, of, n, true)
	c.Members.mu.Lock()
	defer c.Members.mu.Unlock()
	return d.Granted, len(c.Members.others)
}

// Forget has the limiter ask Redis with its next call, whatever it knows to be empty.
func (l *Limiter) Forget() { l.has().ForgetDenials(l.has().Target.Routes.Load()) }

// Paced returns how long no shard wants to see this participant again.
func (l *Limiter) Paced() time.Duration {
	m := l.has()
	return m.View(m.Target.Routes.Load()).pause(m.Target.Process.Now())
}

// OwnPermits returns this process' part of the limit under FailLocal.
func (l *Limiter) OwnPermits() int64 {
	c := l.has().Target
	return c.OwnPart(c.Routes.Load().Limit).Permits
}

// Remembers returns of how many shards the limiter keeps lanes, and its participant seats.
func (l *Limiter) Remembers() (lanes, seats int) {
	m := l.has()
	lanes = m.Target.Remembered()
	m.mu.Lock()
	defer m.mu.Unlock()
	return lanes, len(m.seats)
}

// has returns what the process has of the limit now.
func (l *Limiter) has() *Member {
	m := l.Hold()
	defer m.Target.Release()
	return m
}

// Participant returns the name of the process.
func (l *Limiter) Participant() string { return l.Target.Process.Config.Participant }
