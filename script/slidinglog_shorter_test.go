package script

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// TestAShorterWindowBesideReservations: what is booked up to an old window ahead keeps its date
// when the window is shortened, and holds nothing back until it is less than a new one ahead.
func TestAShorterWindowBesideReservations(t *testing.T) {
	for _, booked := range []int64{1, 10} {
		b := &table{t: t}
		old, short := b.propose(1, 10, 10, time.Hour, false), b.propose(2, 10, 10, time.Second, false)
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

// TestAShorterWindowOnServers plays random calls before and after the window was shortened.
func TestAShorterWindowOnServers(t *testing.T) {
	m := miniredis.RunT(t)
	client := redistest.Standalone(t).Client(t)
	for seed := range uint64(extent.Some(30)) {
		name := strconv.FormatUint(seed, 10)
		for where, log := range map[string]clockedShard{
			"twin":      inProcess{&slidingTwin{}},
			"miniredis": emulated{server: m, endpoint: NewEndpoint(miniClient(t, m)), ref: ShardKeys("", "t", name)},
			"redis":     clocked{client: client, uptime: 1_000_000, ref: ShardKeys(redistest.Prefix(t), "t", name)},
		} {
			t.Run(where+" "+name, func(t *testing.T) { shorten(t, log, seed) })
		}
	}
}

func shorten(t *testing.T, log clockedShard, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 3))
	b := newBookings(t, seed, 1+random.Int64N(exactShare))
	for range 60 {
		b.step(t, log, true)
	}
	share := 1 + random.Int64N(b.model.share)
	window := time.Duration(1+random.Int64N(40)) * time.Millisecond
	short, changed := proposal(t, 2, share, window), b.now
	if _, err := log.take(b.now, &TakeRequest{Proposal: short}); err != nil {
		t.Fatal(err)
	}
	b.terms, b.model.share, b.model.window = short, share, int64(window/time.Microsecond)
	b.model.permits = slices.DeleteFunc(b.model.permits, func(p dated) bool { return p.at <= b.now-b.model.window })
	for b.now < changed+150_000 {
		b.now += random.Int64N(4000)
		near := slices.ContainsFunc(b.model.permits,
			func(p dated) bool { return p.at > b.now && p.at < b.now+b.model.window })
		n := 1 + random.Int64N(share)
		if random.IntN(5) == 0 && len(b.held) > 0 {
			if err := b.giveBack(t, log, false); err != nil {
				t.Fatal(err)
			}
			continue
		}
		r, err := log.take(b.now, &TakeRequest{Proposal: short, Groups: []Group{{Size: n, Count: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		room := b.model.room(b.now, n)
		if r.Granted > 0 && !room || r.Granted == 0 && room && !near {
			t.Fatalf("%d permits at %d, %d after the change: room is %t, %+v", n, b.now, b.now-changed, room, r)
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
	b := &table{t: t}
	old, short := b.propose(1, 10, 10, time.Hour, false), b.propose(2, 10, 10, time.Second, false)
	gone := b.propose(3, 0, 0, time.Second, false)
	b.take(0, old, 10, 10)
	r := b.log.Reserve(1000, &ReserveRequest{Proposal: old, Permits: 4, MaxDelay: time.Hour})
	b.take(2_000_000, short, 0, 0)
	for _, at := range []dated{{4_000_000, 4}, {int64(r.At + 999_999), 4}, {int64(r.At + 1_000_000), 0}} {
		if got := b.log.Take(at.at, &TakeRequest{Proposal: gone}); got.Share != at.n {
			t.Fatalf("at %d: %+v", at.at, got)
		}
	}
}
