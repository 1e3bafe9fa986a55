package script

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/extent"
)

// TestLostMemory: a shard whose server lost its memory grants nothing, and has no share, until what
// was forgotten cannot be in use: a window, or for as long as a bucket takes to fill, or a queue to
// drain.
func TestLostMemory(t *testing.T) {
	const hour = int64(time.Hour / time.Microsecond)
	const unknown = -1
	for name, c := range map[string]struct {
		up, known        time.Duration // since when the server is up, and since when the limit is known
		seen, quarantine bool
		closed           time.Duration
	}{
		"new limit, new node":         {5 * time.Second, 0, false, true, 0},
		"old limit, old node":         {time.Hour, 2 * time.Hour, false, true, 0},
		"old limit, restarted":        {5 * time.Second, time.Hour, false, true, 56 * time.Second},
		"old limit, just restarted":   {0, 3 * time.Second, false, true, time.Minute},
		"hardly older than the node":  {5 * time.Second, 6 * time.Second, false, true, 0},
		"surely older than the node":  {5 * time.Second, 6*time.Second + time.Microsecond, false, true, 56 * time.Second},
		"resumed":                     {5 * time.Second, time.Hour, false, false, 0},
		"seen alive":                  {time.Hour, 0, true, true, time.Minute},
		"seen alive, resumed":         {time.Hour, 0, true, false, 0},
		"uptime not told":             {unknown, time.Hour, false, true, 0},
		"seen alive, uptime not told": {unknown, 0, true, true, time.Minute},
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
				p := terms(t, Terms{Epoch: 3, Target: 10, Floor: 10, Burst: burst, Window: time.Minute,
					Quarantine: c.quarantine, Algorithm: a})
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

// TestAShorterWindowWhileCallsGoOn plays random calls before and after the window was shortened.
func TestAShorterWindowWhileCallsGoOn(t *testing.T) {
	for seed := range extent.Some(uint64(240)) {
		shorten(t, newTwin(AlgorithmSlidingLog), seed)
	}
}

func shorten(t *testing.T, log *twin, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 3))
	b := newBookings(t, seed, 1+random.Int64N(exactShare))
	for range 60 {
		b.step(t, log, true)
	}
	share := 1 + random.Int64N(b.model.share)
	window := time.Duration(1+random.Int64N(40)) * time.Millisecond
	short, changed := proposal(t, 2, share, window), b.now
	log.Take(b.now, &TakeRequest{Proposal: short})
	b.terms, b.model.share, b.model.window = short, share, int64(window/time.Microsecond)
	b.model.permits = slices.DeleteFunc(b.model.permits, func(p dated) bool { return p.at <= b.now-b.model.window })
	for b.now < changed+150_000 {
		b.now += random.Int64N(4000)
		near := slices.ContainsFunc(b.model.permits,
			func(p dated) bool { return p.at > b.now && p.at < b.now+b.model.window })
		n := 1 + random.Int64N(share)
		if random.IntN(5) == 0 && len(b.held) > 0 {
			b.giveBack(t, log, false)
			continue
		}
		r := log.Take(b.now, &TakeRequest{Proposal: short, Groups: []Group{{Size: n, Count: 1}}})
		room := b.model.room(b.now, n)
		if r.Granted > 0 && !room || r.Granted == 0 && room && !near {
			t.Fatalf("seed %d: %d permits at %d, %d after the change: room is %t, %+v", seed, n, b.now,
				b.now-changed, room, r)
		}
		if r.Granted > 0 {
			b.model.add(int64(r.At), r.Granted)
			b.held = append(b.held, dated{int64(r.At), r.Granted})
		}
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
