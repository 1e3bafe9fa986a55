package script

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/columns"
	"github.com/shardlimit/shardlimit/internal/limittest/redissim"
)

// lengthen plays steps on a server and on the twin, and returns how long the string came to be.
func lengthen(t *testing.T, a Algorithm, steps int, draw func(i int) step) (longest int) {
	t.Helper()
	s, server, twin := &stage{}, onSimulated(a, 1_000_000), newTwin(a)
	for i := range steps {
		longest = max(longest, len(s.agree(t, draw(i), twin, server)))
	}
	return longest
}

// TestALongLogIsOneString: of a long log takes read and write parts, and come to the same as the
// twin. What has left is dropped in time.
func TestALongLogIsOneString(t *testing.T) {
	t.Parallel()
	for _, a := range logAlgorithms {
		for _, share := range []int64{20, 100, 1000} {
			p := terms(t, Terms{Epoch: 1, Target: share, Floor: share, Window: time.Second, Algorithm: a})
			random, now, last := rand.New(rand.NewPCG(1, uint64(share))), int64(epoch0), int64(0)
			longest := lengthen(t, a, 1200, func(i int) step {
				gap, size := int64(random.IntN(int(2_000_000/min(share, 150)))), int64(1)
				switch random.IntN(60) {
				case 0:
					gap = 300_000 + random.Int64N(500_000)
				case 1, 2:
					size = 1 + random.Int64N(share)
				case 3:
					gap = 0
				}
				now += gap
				switch {
				case i%97 == 96:
					return step{now: now, settle: &SettleRequest{Back: 1, At: clock.ServerTime(last)}}
				case i%301 == 300:
					book := &ReserveRequest{Proposal: p, Permits: 1 + share/2, MaxDelay: time.Second}
					return step{now: now, book: book}
				}
				last = now
				return step{now: now, take: &TakeRequest{Proposal: p, Groups: []Group{{Size: size, Count: 1}}}}
			})
			if a == AlgorithmSlidingLog && share > 20 && longest < columns.Packed.Bytes()+70*columns.Entry.Bytes() ||
				longest > columns.Packed.Bytes()+400*columns.Entry.Bytes() {
				t.Errorf("%v of %d: up to %d bytes", a, share, longest)
			}
		}
	}
}

// What is charged beyond the share, and what is booked and comes to be past, makes no log longer
// than it may be, and none that cannot be read.
func TestChargesAndBookingsDoNotLengthenALog(t *testing.T) {
	t.Parallel()
	for _, a := range []Algorithm{AlgorithmSlidingLog, AlgorithmSlidingCounter} {
		p := terms(t, Terms{Epoch: 1, Target: 100, Floor: 100, Window: time.Hour, Algorithm: a})
		longest := lengthen(t, a, 800, func(i int) step {
			now := epoch0 + int64(i)*7_000_000
			if i%2 == 0 {
				return step{now: now, settle: &SettleRequest{Proposal: p, Charge: 1}}
			}
			book := &ReserveRequest{Proposal: p, Permits: 1, MinDelay: time.Second, MaxDelay: time.Hour}
			return step{now: now, book: book}
		})
		if most := columns.Packed.Bytes() + (2*mostEntries+2*mostPending)*columns.Entry.Bytes(); longest > most {
			t.Errorf("%v: %d bytes, at most %d", a, longest, most)
		}
	}
}

// Bookings that are not in the order of their dates, as no operation leaves them, keep no server
// busy for ever.
func TestDamagedBookingsEndALoop(t *testing.T) {
	m := miniredis.RunT(t)
	ref, twin, now := AlgorithmSlidingLog.Keys("", "t", "limit"), newTwin(AlgorithmSlidingLog), int64(epoch0)
	p := terms(t, Terms{Epoch: 1, Target: 100, Floor: 100, Window: time.Hour})
	twin.Take(now, ones(p, 100))
	own := twin.own.(*log)
	own.entries = append(own.entries, entry{now + 1e12, 110}, entry{now + 10, 120})
	must(t, m.Set(ref.head, twin.head()))
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

func onSimulated(a Algorithm, uptime int64) timed {
	ref := a.Keys("", "t", "limit")
	s := newSimulated(uptime, ref.head, ref.Ledger())
	return timed{server: s, endpoint: NewEndpoint(s.client), ref: ref}
}
