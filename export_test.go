package shardlimit

import (
	"time"

	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/internal/wait"
)

// What tests see of the engine, see internal/limit/inside.go.

func (l *Limiter) Waiting() int {
	callers, _ := wait.Waiting(&l.in)
	return callers
}
func (l *Limiter) NotBefore() int64 {
	_, at := wait.Waiting(&l.in)
	return at
}
func (l *Limiter) Participant() string { return l.in.Participant() }
func (l *Limiter) HaltLease()          { l.in.HaltLease() }
func (l *Limiter) Stale()              { l.in.Doubt() }
func (l *Limiter) Forget()             { l.in.Forget() }

func (l *Limiter) Paced() time.Duration          { return l.in.Paced() }
func (l *Limiter) Remembers() (lanes, seats int) { return l.in.Remembers() }
func (c *Client) Suspend(d time.Duration)        { c.in.Suspend(d) }
func (c *Client) Stop(d time.Duration)           { c.in.Stop(d) }
func (c *Client) RememberKeys(n int)             { c.in.RememberKeys(n) }
func (c *Client) RecordNodes() []string          { return c.in.RecordNodes() }
func (f *Family) Known() int                     { return f.in.Known() }
func (s *Set) Waiting() int                      { return s.in.Waiting() }
func (s *Set) NotBefore() int64                  { return s.in.NotBefore() }

func (l *Limiter) PerParticipant(n int64, names ...string) (granted []int64, remembered int) {
	for _, name := range names {
		var one int64
		one, remembered = l.in.DecideFor(name, n)
		granted = append(granted, one)
	}
	return granted, remembered
}

func LocalPermits(l *Limiter) int64 { return l.in.OwnPermits() }

func PartOf(limit Limit, processes int64) (Limit, error) {
	part, err := limit.in().Part(processes)
	return limitOf(part), err
}

var ErrorCode = telemetry.ErrorCode
