package script

import (
	"testing"
	"time"
)

func TestLostMemory(t *testing.T) {
	const hour = int64(time.Hour / time.Microsecond)
	for name, c := range map[string]struct {
		uptime     time.Duration
		unknown    bool
		known      time.Duration
		seen       bool
		quarantine bool
		status     Status
		closed     time.Duration
	}{
		"new limit, new node": {uptime: 5 * time.Second, known: 0, quarantine: true, status: Fresh},
		"old limit, old node": {uptime: time.Hour, known: 2 * time.Hour, quarantine: true, status: Fresh},
		"old limit, restarted": {uptime: 5 * time.Second, known: time.Hour, quarantine: true, status: Lost,
			closed: 56 * time.Second},
		"old limit, just restarted": {uptime: 0, known: 3 * time.Second, quarantine: true, status: Lost,
			closed: time.Minute},
		"hardly older than the node": {uptime: 5 * time.Second, known: 6 * time.Second, quarantine: true,
			status: Fresh},
		"surely older than the node": {uptime: 5 * time.Second, known: 6*time.Second + time.Microsecond,
			quarantine: true, status: Lost, closed: 56 * time.Second},
		"resumed": {uptime: 5 * time.Second, known: time.Hour, status: Fresh},
		"seen alive": {uptime: time.Hour, seen: true, quarantine: true, status: Lost,
			closed: time.Minute},
		"seen alive, resumed":         {uptime: time.Hour, seen: true, status: Fresh},
		"uptime not told":             {unknown: true, known: time.Hour, quarantine: true, status: Fresh},
		"seen alive, uptime not told": {unknown: true, seen: true, quarantine: true, status: Lost, closed: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			b := &table{t: t, log: slidingTwin{whole: whole{uptime: c.uptime, uptimeKnown: !c.unknown}}}
			p := b.propose(3, 10, 10, time.Minute, c.quarantine)
			ask := []Group{{Size: 1, Count: 1}}
			r := b.log.Take(hour, &TakeRequest{Proposal: p, Relied: Relied{Known: c.known, Seen: c.seen}, Groups: ask})
			if r.Status != c.status || r.Closed != c.closed || r.Retry != c.closed ||
				(r.Granted == 1) != (c.closed == 0) {
				t.Fatalf("%+v", r)
			}
			if c.closed > 0 {
				end := hour + int64(c.closed/time.Microsecond)
				b.take(end-1, p, 1, 0)
				b.take(end, p, 1, 1)
			}
		})
	}
}

// TestQuarantineTakesNoFloors: what is proposed meanwhile may be older than the loss.
func TestQuarantineTakesNoFloors(t *testing.T) {
	b := &table{t: t}
	b.log.Take(0, &TakeRequest{Proposal: b.propose(1, 100, 100, time.Second, true), Relied: Relied{Seen: true}})
	next := b.propose(2, 20, 20, time.Second, true)
	if r := b.take(500_000, next, 1, 0); r.Share != 0 || r.Closed != 500*time.Millisecond || r.Retry != r.Closed {
		t.Fatalf("%+v", r)
	}
	if r := b.take(1_000_000, next, 1, 1); r.Share != 20 || r.Start != 0 {
		t.Fatalf("%+v", r)
	}
}

// A quarantine ends soon after a clear, and not before nobody relies on what was read before the
// loss. Then the share has to be confirmed.
func TestClearShortensQuarantine(t *testing.T) {
	b := &table{t: t}
	p := b.propose(1, 10, 10, time.Minute, true)
	b.log.Take(0, &TakeRequest{Proposal: p, Relied: Relied{Seen: true}})
	b.take(1, p, 1, 0)
	if r := b.log.Clear(2); r != (ClearReply{Status: OK, Epoch: 1}) {
		t.Fatalf("%+v", r)
	}
	if r := b.take(3, p, 10, 0); r.Closed != 5*time.Second-time.Microsecond {
		t.Fatalf("%+v", r)
	}
	b.log.Clear(4_000_000)
	b.take(5_000_001, p, 10, 0)
	ask := &TakeRequest{Proposal: p, Relied: Relied{Deadline: Unconfirmed}, Groups: []Group{{Size: 1, Count: 1}}}
	if r := b.log.Take(5_000_002, ask); r.Status != Absent {
		t.Fatalf("%+v", r)
	}
	b.take(5_000_002, p, 10, 10)
	b.log.Clear(5_000_004)
	b.take(5_000_005, p, 10, 10)
}
