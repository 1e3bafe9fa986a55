package script

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRetryIsExact is promise P7 on one shard, beside bookings and settlements and while its limit
// changes.
func TestRetryIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log, s := newTwin(AlgorithmSlidingLog), newStage(t, AlgorithmSlidingLog)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			for _, step := range s.steps() {
				switch {
				case step.settle != nil:
					log.Settle(step.now, *step.settle)
				case step.book != nil:
					s.saw(log.Reserve(step.now, step.book).TakeReply)
				case step.take != nil:
					reply := log.Take(step.now, step.take)
					s.saw(reply)
					exact(t, log, step.now, step.take, &reply)
				}
			}
		}
	})
}

// exact sees that the waits of a reply are. One that comes back after Retry and is alone gets what
// it asked for, one that comes a microsecond earlier does not. What is in use comes back from Next
// on, or where nothing is free, so much that a permit is; until Reset all has. TestLostMemory is
// about the quarantine.
func exact(t *rapid.T, shard *twin, now int64, r *TakeRequest, reply *TakeReply) {
	if reply.Status == Absent || reply.Status == Fenced || reply.Closed > 0 {
		return
	}
	in := func(wait time.Duration) PeekReply { return shard.Peek(now + int64(wait/time.Microsecond)) }
	refused, most := int64(0), min(reply.Share, reply.Target)
	if r.Proposal.algorithm.Bursty() {
		most = r.Proposal.burst
	}
	for i, group := range r.Groups {
		if reply.Grants[i] < group.Count {
			refused = group.Size
			break
		}
	}
	sound := false
	switch {
	case refused == 0, reply.Contended && refused <= reply.Free:
		sound = reply.Retry == 0
	case refused > most:
		sound = reply.Retry == -1
	default:
		sound = reply.Retry > 0 && in(reply.Retry).Free >= refused && in(reply.Retry-time.Microsecond).Free < refused
	}
	if reply.Next > 0 {
		before, then := in(reply.Next-time.Microsecond), in(reply.Next)
		if reply.Free == 0 {
			sound = sound && before.Free == 0 && (then.Free > 0 || most == 0 && then.Used == 0)
		} else {
			sound = sound && before.Used == reply.Used && then.Used < reply.Used
		}
	}
	if reply.Reset > 0 {
		sound = sound && in(reply.Reset-time.Microsecond).Used > 0 && in(reply.Reset).Used == 0
	}
	if !sound {
		t.Fatalf("at %d %+v of %+v:\n%+v", now, r, r.Proposal, reply)
	}
}

// table is a readable sequence of calls on one log.
type table struct {
	t   *testing.T
	log *twin
}

func newTable(t *testing.T) *table { return &table{t: t, log: newTwin(AlgorithmSlidingLog)} }

func (b *table) take(now int64, p *Proposal, permits, granted int64) TakeReply {
	b.t.Helper()
	r := &TakeRequest{Proposal: p}
	if permits > 0 {
		r.Groups = []Group{{Size: 1, Count: permits}}
	}
	reply := b.log.Take(now, r)
	if reply.Granted != granted {
		b.t.Fatalf("at %d: %d granted of %d, want %d: %+v", now, reply.Granted, permits, granted, reply)
	}
	return reply
}

func TestLogIsBounded(t *testing.T) {
	for _, share := range []int64{1, 100, 128, 129, 1000, 10_000_000} {
		b, most := newTable(t), 0
		p := proposal(t, 1, share, time.Second)
		for now := int64(0); now < 4_000_000; now += 211 {
			b.log.Take(now, ones(p, 1))
			most = max(most, len(b.log.own.(*log).entries))
		}
		if most > exactLive+logCells+1 {
			t.Errorf("share %d: up to %d entries", share, most)
		}
	}
}

// TestLostMemory: a shard whose server lost its memory grants nothing, and has no share, until what
// was forgotten cannot be in use: a window, or for as long as a bucket takes to fill, or a queue to
// drain.
func TestLostMemory(t *testing.T) {
	const hour = int64(time.Hour / time.Microsecond)
	const unknown = -1
	for name, c := range map[string]struct {
		up, known     time.Duration // since when the server is up, and since when the limit is known
		seen, resumes bool
		closed        time.Duration
	}{
		"new limit, new node":         {5 * time.Second, 0, false, false, 0},
		"old limit, old node":         {time.Hour, 2 * time.Hour, false, false, 0},
		"old limit, restarted":        {5 * time.Second, time.Hour, false, false, 56 * time.Second},
		"old limit, just restarted":   {0, 3 * time.Second, false, false, time.Minute},
		"hardly older than it":        {5 * time.Second, 6 * time.Second, false, false, 0},
		"older than the node":         {5 * time.Second, 6*time.Second + time.Microsecond, false, false, 56 * time.Second},
		"resumed":                     {5 * time.Second, time.Hour, false, true, 0},
		"seen alive":                  {time.Hour, 0, true, false, time.Minute},
		"seen alive, resumed":         {time.Hour, 0, true, true, 0},
		"uptime not told":             {unknown, time.Hour, false, false, 0},
		"seen alive, uptime not told": {unknown, 0, true, false, time.Minute},
	} {
		for _, a := range allAlgorithms {
			for _, burst := range []int64{10, 25} {
				longer := time.Duration(0)
				if a.Bursty() && c.closed > 0 {
					longer = time.Duration(burst-10) * 6 * time.Second
				}
				closed, twin, status := c.closed+longer, newTwin(a), Fresh
				if c.closed > 0 {
					status = Lost
				}
				if c.up != unknown {
					twin.runFor(c.up)
				}
				of := Terms{Epoch: 3, Target: 10, Floor: 10, Burst: burst, Window: time.Minute,
					Quarantine: time.Microsecond, Algorithm: a}
				if c.resumes {
					of.Quarantine = 0
				}
				p := terms(t, of)
				ask := ones(p, 1)
				ask.Known, ask.Seen = c.known, c.seen
				if r := twin.Take(hour, ask); r.Status != status || r.Closed != closed || r.Retry != closed ||
					(r.Granted == 1) != (closed == 0) || (r.Share == 10) != (closed == 0) {
					t.Errorf("%s, %v, burst %d: %+v", name, a, burst, r)
				}
				if end := hour + closed.Microseconds(); closed > 0 &&
					(twin.Take(end-1, ones(p, 1)).Granted != 0 || twin.Take(end, ones(p, 1)).Granted != 1) {
					t.Errorf("%s, %v, burst %d: open at another time", name, a, burst)
				}
			}
		}
	}
}

// A quarantine ends soon after a clear, and not before nobody relies on what was read before the
// loss. Then the share has to be confirmed.
func TestClearShortensQuarantine(t *testing.T) {
	b := newTable(t)
	p := proposal(t, 1, 10, time.Minute)
	b.log.Take(0, &TakeRequest{Proposal: p, Relied: Relied{Seen: true}})
	b.take(1, p, 1, 0)
	b.log.Clear(2)
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

// TestAShorterWindowBesideReservations: what is booked up to an old window ahead keeps its date
// when the window is shortened, and holds nothing back until it is less than a new one ahead.
func TestAShorterWindowBesideReservations(t *testing.T) {
	for _, booked := range []int64{1, 10} {
		b := newTable(t)
		old, short := proposal(t, 1, 10, time.Hour), proposal(t, 2, 10, time.Second)
		b.take(0, old, 10, 10)
		const due = 3600_000_000
		r := b.log.Reserve(1000, &ReserveRequest{Proposal: old, Permits: booked, MaxDelay: time.Hour})
		if r.Granted != booked || r.Delay != duration(due-1000) {
			t.Fatalf("%+v", r)
		}
		for now := int64(2_000_000); now < due-1_000_000; now += 100_000_000 {
			b.take(now, short, 10, 10)
			if r := b.take(now+1, short, 1, 0); r.Retry != time.Second-time.Microsecond {
				t.Fatalf("%+v", r)
			}
		}
		b.take(due-900_000, short, 10, 10-booked)
		b.take(due+99_999, short, 10, 0)
		b.take(due+100_000, short, 10, 10-booked)
		b.take(due+1_100_000, short, 10, 10)
	}
}

// TestAShareIsKeptForWhatIsFarAhead: what is booked more than a window ahead will count, so the
// share for it serves nowhere else before.
func TestAShareIsKeptForWhatIsFarAhead(t *testing.T) {
	b := newTable(t)
	old, short := proposal(t, 1, 10, time.Hour), proposal(t, 2, 10, time.Second)
	gone := proposal(t, 3, 0, time.Second)
	b.take(0, old, 10, 10)
	r := b.log.Reserve(1000, &ReserveRequest{Proposal: old, Permits: 4, MaxDelay: time.Hour})
	b.take(2_000_000, short, 0, 0)
	for _, at := range []dated{{4_000_000, 4}, {int64(r.At + 999_999), 4}, {int64(r.At + 1_000_000), 0}} {
		if got := b.log.Take(at.at, &TakeRequest{Proposal: gone}); got.Share != at.n {
			t.Fatalf("at %d: %+v", at.at, got)
		}
	}
}
