package script

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/columns"
	"github.com/shardlimit/shardlimit/internal/limittest/redissim"
)

// slidingTwin is the twin of a sliding log.
type slidingTwin = packed[log[slidingLog], *log[slidingLog]]

// text renders the log as the scripts store it when they write the whole of it.
func (l *log[D]) text() string {
	count, newest := int64(len(l.entries)), entry{total: l.before}
	oldest := newest
	if count > 0 {
		oldest, newest = l.entries[0], l.entries[count-1]
	}
	text := columns.Log.Append(nil, 0, count, newest.date, newest.total, l.since, l.before, 0, oldest.date)
	for _, e := range l.entries[:max(count-1, 0)] {
		text = columns.Entry.Append(text, 0, e.date, e.total)
	}
	return string(text)
}

func cloned(l *slidingTwin) *slidingTwin {
	twin := *l
	twin.own.entries, twin.fair.ledger = slices.Clone(l.own.entries), l.fair.ledger.Clone()
	return &twin
}

// TestALongLogIsOneString: of a long log takes read and write parts, and come to the same as the
// twin. What has left is dropped in time.
func TestALongLogIsOneString(t *testing.T) {
	t.Parallel()
	for _, a := range logAlgorithms {
		for _, share := range []int64{20, 100, 1000} {
			p := terms(t, Terms{Epoch: 1, Target: share, Floor: share, Window: time.Second, Algorithm: a})
			longest := longLog(t, a.String(), newTwin(a).(packedTwin), onSimulated(1_000_000, a), p)
			if a == AlgorithmSlidingLog && share > 20 && longest < columns.Packed.Bytes()+70*columns.Entry.Bytes() ||
				longest > columns.Packed.Bytes()+400*columns.Entry.Bytes() {
				t.Errorf("%v of %d: up to %d bytes", a, share, longest)
			}
		}
	}
}

// longLog plays takes, and some settlements and reservations, and returns how long the string came
// to be.
func longLog(t *testing.T, name string, twin packedTwin, server timed, p *Proposal) (longest int) {
	t.Helper()
	random, now, last := rand.New(rand.NewPCG(1, uint64(p.target))), int64(epoch0), int64(0)
	for i := range 1200 {
		gap, size := int64(random.IntN(int(2_000_000/min(p.target, 150)))), int64(1)
		switch random.IntN(60) {
		case 0:
			gap = 300_000 + random.Int64N(500_000)
		case 1, 2:
			size = 1 + random.Int64N(p.target)
		case 3:
			gap = 0
		}
		now += gap
		var want, got any
		var err error
		switch r := ones(p, 1); {
		case i%97 == 96:
			settle := SettleRequest{Back: 1, At: clock.ServerTime(last)}
			want = twin.Settle(now, settle)
			got, err = server.settle(now, settle)
		case i%301 == 300:
			book := &ReserveRequest{Proposal: p, Permits: 1 + p.target/2, MaxDelay: time.Second}
			want = twin.Reserve(now, book)
			got, err = server.reserve(now, book)
		default:
			r.Groups[0].Size = size
			take := twin.Take(now, r)
			want, last = take, int64(take.At)
			got, err = server.take(now, r)
		}
		if err != nil || !reflect.DeepEqual(want, got) {
			t.Fatalf("%s, step %d: %v\ntwin   %+v\nserver %+v", name, i, err, want, got)
		}
		head, _ := server.stored()
		if head != twin.head() {
			t.Fatalf("%s, step %d: stored\n%q\ntwin\n%q", name, i, head, twin.head())
		}
		longest = max(longest, len(head))
	}
	return longest
}

// What is charged beyond the share, and what is booked and comes to be past, makes no log longer
// than it may be, and none that cannot be read.
func TestChargesAndBookingsDoNotLengthenALog(t *testing.T) {
	t.Parallel()
	for _, a := range []Algorithm{AlgorithmSlidingLog, AlgorithmSlidingCounter} {
		server, twin, now := onSimulated(1_000_000, a), newTwin(a).(packedTwin), int64(epoch0)
		p := terms(t, Terms{Epoch: 1, Target: 100, Floor: 100, Window: time.Hour, Algorithm: a})
		most := columns.Packed.Bytes() + (2*mostEntries+2*mostPending)*columns.Entry.Bytes()
		for i := range 800 {
			now += 7_000_000
			var want, got any
			var err error
			if i%2 == 0 {
				charge := SettleRequest{Proposal: p, Charge: 1}
				want = twin.Settle(now, charge)
				got, err = server.settle(now, charge)
			} else {
				book := &ReserveRequest{Proposal: p, Permits: 1, MinDelay: time.Second, MaxDelay: time.Hour}
				want = twin.Reserve(now, book)
				got, err = server.reserve(now, book)
			}
			if err != nil || !reflect.DeepEqual(want, got) {
				t.Fatalf("%v, step %d: %v\ntwin   %+v\nserver %+v", a, i, err, want, got)
			}
			if head, _ := server.stored(); len(head) > most {
				t.Fatalf("%v, step %d: %d bytes, at most %d", a, i, len(head), most)
			}
		}
	}
}

// Bookings that are not in the order of their dates, as no operation leaves them, keep no server
// busy for ever.
func TestDamagedBookingsEndALoop(t *testing.T) {
	m := miniredis.RunT(t)
	ref, twin, now := AlgorithmSlidingLog.Keys("", "t", "limit"), &slidingTwin{}, int64(epoch0)
	p := terms(t, Terms{Epoch: 1, Target: 100, Floor: 100, Window: time.Hour})
	twin.Take(now, ones(p, 100))
	twin.own.entries = append(twin.own.entries, entry{now + 1e12, 110}, entry{now + 10, 120})
	if err := m.Set(ref.head, twin.head()); err != nil {
		t.Fatal(err)
	}
	server := timed{server: m, endpoint: NewEndpoint(miniClient(t, m)), ref: ref}
	if reply, err := server.take(now, ones(p, 1)); err == nil && reply.Granted != 0 {
		t.Errorf("%+v", reply)
	}
	if reply := twin.Take(now, ones(p, 1)); reply.Granted != 0 {
		t.Errorf("the twin: %+v", reply)
	}
}

// simulated is the server of histories and of tests in simulated time. It runs the scripts as they
// are, over commands of its own: so its replies, and what it stores, are compared as a server's
// are.
type simulated struct {
	*redissim.Server
	client rueidis.Client
	now    time.Time // its TIME
	kept   []string  // keys that are kept from expiring, which twins know nothing of
}

// ages are for how long a server may have been up.
var ages = []int64{0, 1, 30, 1_000_000_000}

// newSimulated returns a server that has been up for so many seconds. Its clock stands still; its
// TIME is set.
func newSimulated(uptime int64, keys ...string) *simulated {
	begun := time.UnixMicro(epoch0)
	clock := begun
	s := &simulated{Server: redissim.NewServer(func() time.Time { return clock }), kept: keys}
	s.Restart() // it is up since then
	clock = begun.Add(time.Duration(uptime) * time.Second)
	s.now, s.client = clock, s.Direct()
	return s
}

// SetTime sets the server's TIME.
func (s *simulated) SetTime(now time.Time) {
	for _, key := range s.kept {
		s.client.Do(context.Background(), s.client.B().Pexpire().Key(key).Milliseconds(1<<40).Build())
	}
	s.Step(now.Sub(s.now))
	s.now = now
}

func onSimulated(uptime int64, a Algorithm) timed {
	ref := a.Keys("", "t", "limit")
	s := newSimulated(uptime, ref.head, ref.Ledger())
	return timed{server: s, endpoint: NewEndpoint(s.client), ref: ref}
}

// TestTwinAgreesWithTheSimulatedServer: what histories find on the simulated server holds for real
// ones, which are compared with the same twins.
func TestTwinAgreesWithTheSimulatedServer(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				uptime := rapid.SampledFrom(ages).Draw(t, "uptime")
				twin := newTwin(a).(packedTwin)
				twin.runFor(time.Duration(uptime) * time.Second)
				agreePacked(t, twin, onSimulated(uptime, a), false)
			})
		})
	}
}
