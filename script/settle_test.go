package script

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// onServers runs a test on a shard of each algorithm, on miniredis and on Redis.
func onServers(t *testing.T, test func(t *testing.T, e *Endpoint, ref ShardRef, p *Proposal)) {
	m, server := miniredis.RunT(t), redistest.Standalone(t)
	endpoints := map[string]*Endpoint{
		"miniredis": NewEndpoint(miniClient(t, m)), "redis": NewEndpoint(server.Client(t)),
	}
	for name, endpoint := range endpoints {
		for _, a := range allAlgorithms {
			t.Run(name+" "+a.String(), func(t *testing.T) {
				p := terms(t, Terms{
					Epoch: 1, Target: 100, Floor: 100, Window: time.Hour, Keep: time.Hour, Algorithm: a,
				})
				test(t, endpoint, a.Keys(redistest.Prefix(t), "t", "limit"), p)
			})
		}
	}
}

// TestSettledOnce: a mark has something settled once, and tells the same again from another.
func TestSettledOnce(t *testing.T) {
	onServers(t, func(t *testing.T, e *Endpoint, ref ShardRef, p *Proposal) {
		taken, err := e.Take(t.Context(), ref, ones(p, 10))
		if err != nil || taken.Granted != 10 {
			t.Fatal(taken, err)
		}
		r := SettleRequest{Back: 4, At: taken.RefundAt(9), Mark: "m", MarkFor: time.Minute, Used: 6}
		for _, c := range []struct {
			used, back int64
			repeated   Repeated
		}{{6, 4, First}, {6, 0, Again}, {7, 0, Another}, {6, 0, Again}} {
			r.Used = c.used
			if reply, err := e.Settle(t.Context(), ref, r); err != nil || reply.Back != c.back ||
				reply.Repeated != c.repeated || reply.Used != 6 || reply.Free != 94 {
				t.Errorf("%d: %+v %v", c.used, reply, err)
			}
		}
		r.Back, r.Charge, r.Proposal = 0, 5, p
		if reply, err := e.Settle(t.Context(), ref, r); err != nil || reply.Granted != 0 || reply.Repeated != Again {
			t.Errorf("charged although it was settled: %+v %v", reply, err)
		}
		key := ref.settleKeys(&SettleRequest{Mark: "m"})
		if ms, err := command(t, e.client, "PTTL", key[len(key)-2]).AsInt64(); err != nil || ms < 1 || ms > 60_000 {
			t.Errorf("the mark lives %d ms, %v", ms, err)
		}
	})
}

// TestChargedBeyondWhatIsFree: later takes are denied until what was charged is paid, also where
// the shard had no state.
func TestChargedBeyondWhatIsFree(t *testing.T) {
	onServers(t, func(t *testing.T, e *Endpoint, ref ShardRef, p *Proposal) {
		r := SettleRequest{Charge: 130, Owed: 2 * time.Hour, Proposal: p}
		want := int64(100) // more makes no difference
		if p.algorithm.Bursty() {
			want = 130
		}
		if reply, err := e.Settle(t.Context(), ref, r); err != nil || reply.Status != Fresh || reply.Granted != want ||
			reply.Free != 0 {
			t.Fatalf("%+v %v", reply, err)
		}
		if reply, err := e.Take(t.Context(), ref, ones(p, 1)); err != nil || reply.Granted != 0 || reply.Retry <= 0 {
			t.Errorf("%+v %v", reply, err)
		}
		r.Owed = time.Hour
		if reply, err := e.Settle(t.Context(), ref, r); err != nil || p.algorithm.Bursty() && reply.Granted != 0 {
			t.Errorf("%+v %v", reply, err)
		}
		if ms, err := command(t, e.client, "PTTL", ref.Head()).AsInt64(); err != nil || ms < 2*3_600_000 {
			t.Errorf("the state lives %d ms, %v", ms, err)
		}
	})
}

// TestABusyBucketTakesEverythingBack: permits of a token bucket that is never full come back whole,
// within the time that it takes to fill, in any order.
func TestABusyBucketTakesEverythingBack(t *testing.T) {
	p := terms(t, Terms{Epoch: 1, Target: 1000, Floor: 1000, Window: time.Second, Algorithm: AlgorithmTokenBucket})
	for seed := range uint64(20) {
		random, twin, now := rand.New(rand.NewPCG(seed, 1)), newTwin(AlgorithmTokenBucket), int64(epoch0)
		twin.Take(now, ones(p, 1000))
		back, asked := int64(0), int64(0)
		var held []holding
		for range 300 {
			now += 10_000
			reply := twin.Take(now, ones(p, 30))
			held = append(held,
				holding{permits: reply.Granted, at: int64(reply.At), from: now + random.Int64N(900_000)})
			for i := 0; i < len(held); i++ {
				if h := held[i]; h.from <= now && h.permits > 1 {
					got := twin.Settle(now, SettleRequest{Back: h.permits / 2, At: clock.ServerTime(h.at)}).Back
					if now > epoch0+1_000_000 { // it was full at first
						back, asked = back+got, asked+h.permits/2
					}
					held = append(held[:i], held[i+1:]...)
					i--
				}
			}
		}
		if asked < 300 || back < asked*9/10 {
			t.Errorf("seed %d: %d of %d came back", seed, back, asked)
		}
	}
}

// TestAnIdleBucketTakesBackWhatItDidNotGain: what was gained since would have overflowed.
func TestAnIdleBucketTakesBackWhatItDidNotGain(t *testing.T) {
	p := terms(t, Terms{Epoch: 1, Target: 1000, Floor: 1000, Window: time.Second, Algorithm: AlgorithmTokenBucket})
	for after, want := range map[int64]int64{0: 500, 100_000: 400, 499_000: 1, 500_000: 0, 2_000_000: 0} {
		twin := newTwin(AlgorithmTokenBucket)
		taken := twin.Take(epoch0, ones(p, 500))
		if reply := twin.Settle(epoch0+after, SettleRequest{Back: 500, At: taken.At}); reply.Back != want ||
			after < 500_000 && reply.Free != 1000 {
			t.Errorf("after %d us: %+v, want %d back", after, reply, want)
		}
	}
}

// TestWhatWasGrantedAWindowAgoDoesNotComeBack: an entry is dated like its last grant, so it may
// hold one whose mark is gone already.
func TestWhatWasGrantedAWindowAgoDoesNotComeBack(t *testing.T) {
	const window, step = 3600 * second, 10 * second
	for a := range algorithms {
		p := terms(t, Terms{Epoch: 1, Target: 10_000, Floor: 10_000, Window: time.Hour, Algorithm: a})
		twin, take := newTwin(a), &TakeRequest{Proposal: p, Groups: []Group{{Size: 10, Count: 1}}}
		now := int64(epoch0)
		takesUntil := func(end int64) {
			for ; now < end; now += step {
				twin.Take(now, take)
			}
		}
		takesUntil(epoch0 + window)
		taken := twin.Take(now, take)
		back := SettleRequest{Back: 10, At: taken.RefundAt(9)}
		if came := twin.Settle(now, back).Back; came != 10 {
			t.Errorf("%v: %d of 10 came back", a, came)
		}
		now += step
		takesUntil(int64(back.At) + window)
		if came := twin.Settle(now, back).Back; came != 0 {
			t.Errorf("%v: %d came back again", a, came)
		}
	}
}

// TestTurnsOfAnotherRateDoNotComeBack: they are not as far apart as turns are now.
func TestTurnsOfAnotherRateDoNotComeBack(t *testing.T) {
	twin, now := newTwin(AlgorithmLeakyBucket), int64(epoch0)
	bucket := Terms{Epoch: 1, Target: 10, Floor: 10, Burst: 1000, Window: time.Second, Algorithm: AlgorithmLeakyBucket}
	given := twin.Take(now, &TakeRequest{Proposal: terms(t, bucket), Groups: []Group{{Size: 1000, Count: 1}}})
	bucket.Epoch, bucket.Window = 2, 10*time.Second
	slow := terms(t, bucket)
	twin.Take(now, &TakeRequest{Proposal: slow})
	if r := twin.Settle(now, SettleRequest{Back: 100, At: given.RefundAt(given.Granted - 1)}); r.Back != 0 {
		t.Fatalf("%+v", r)
	}
	if r := twin.Take(now, ones(slow, 1)); r.Granted > 0 && r.Delay < 100*time.Second {
		t.Fatalf("its turn is before those that were given: %+v", r)
	}
}

// TestABookingThatIsGivenUpComesBackEarly: others hear of it, and not of the parts that a booking
// gives back at once, which name their participant.
func TestABookingThatIsGivenUpComesBackEarly(t *testing.T) {
	onServers(t, func(t *testing.T, e *Endpoint, ref ShardRef, p *Proposal) {
		for _, id := range []string{"0123456789abcdef", ""} {
			if _, err := e.Take(t.Context(), ref, ones(p, 100)); err != nil {
				t.Fatal(err)
			}
			booked, err := e.Reserve(t.Context(), ref, &ReserveRequest{Proposal: p, Permits: 1, MaxDelay: 10 * MaxWindow})
			if p.algorithm == AlgorithmLeakyBucket {
				return // its turns are bookings
			}
			if err != nil || booked.Granted != 1 {
				t.Fatal(booked, err)
			}
			back, err := e.Settle(t.Context(), ref, SettleRequest{Back: 1, At: booked.At, Caller: Caller{ID: id}})
			if err != nil || back.Back != 1 || back.Early != (id == "") {
				t.Errorf("%q: %+v %v", id, back, err)
			}
			if err := e.Clear(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestADenialTellsThatPermitsCameBackEarly: if they were settled, and not if a call that came to
// nothing gave them back before they were due.
func TestADenialTellsThatPermitsCameBackEarly(t *testing.T) {
	onServers(t, func(t *testing.T, e *Endpoint, ref ShardRef, p *Proposal) {
		for _, mark := range []string{"", "m"} {
			taken, err := e.Take(t.Context(), ref, ones(p, 100))
			if err != nil || taken.Early {
				t.Fatal(taken, err)
			}
			r := SettleRequest{Back: 1, At: taken.RefundAt(taken.Granted - 1), Mark: mark, MarkFor: time.Minute}
			settled, err := e.Settle(t.Context(), ref, r)
			if err != nil || settled.Back != 1 {
				t.Fatal(settled, err)
			}
			if p.algorithm == AlgorithmLeakyBucket {
				mark = "a turn that is not due"
			}
			for range 2 {
				for _, rare := range []bool{false, true} { // by the calm take and by the full one
					take := ones(p, 2)
					take.Rare = rare
					if reply, err := e.Take(t.Context(), ref, take); err != nil || reply.Early != (mark != "") {
						t.Errorf("marked %q, rare %t: %+v %v", mark, rare, reply, err)
					}
				}
			}
			if err := e.Clear(t.Context(), ref); err != nil || p.algorithm == AlgorithmLeakyBucket {
				return
			}
		}
	})
}
