package script

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// TestABookingWaitsForAllOfItsCredit: it is refused however little it comes before its credit pays
// for it, and granted from then on.
func TestABookingWaitsForAllOfItsCredit(t *testing.T) {
	everywhere(t, func(t *testing.T, shard counter, a Algorithm) {
		r := newRivals(t, shard, a)
		r.join(10, taker)
		r.run(3)
		book := func(after time.Duration) ReserveReply {
			reply, err := shard.reserve(r.now, &ReserveRequest{
				Proposal: r.proposal, Permits: 8, MinDelay: after, MaxDelay: time.Minute,
				Caller: caller(0),
			})
			if err != nil {
				t.Fatal(err)
			}
			return reply
		}
		for range 3 {
			book(0) // until it is in debt
		}
		pay := book(0).Paced
		if pay < time.Millisecond {
			t.Fatalf("its credit pays for it after %v", pay)
		}
		for _, early := range []time.Duration{pay / 4, pay * 3 / 4, pay - time.Microsecond} {
			if reply := book(early); reply.Granted != 0 || reply.Paced != pay || reply.Retry != pay {
				t.Errorf("paid after %v, wanted after %v: %+v", pay, early, reply)
			}
		}
		if reply := book(pay); reply.Granted != 8 || reply.Delay < pay {
			t.Errorf("paid after %v: %+v", pay, reply)
		}
	})
}

// TestABucketComesBackUnderAnotherWindow: a bucket that was about to leave to another algorithm,
// and goes on under a new window.
func TestABucketComesBackUnderAnotherWindow(t *testing.T) {
	for _, a := range []Algorithm{AlgorithmTokenBucket, AlgorithmLeakyBucket} {
		for name, server := range bucketServers(t, a) {
			twin, now := NewTwin(a).(packedTwin), int64(epoch0)
			twin.runFor(1_000_000 * time.Second)
			for i, step := range []struct {
				terms   Terms
				permits int64
			}{
				{Terms{Epoch: 1, Target: 10, Floor: 10, Window: 2 * time.Second}, 7},
				{Terms{Epoch: 2, Retire: true, Window: 2 * time.Second}, 0},
				{Terms{Epoch: 3, Target: 10, Floor: 10, Window: time.Second}, 1},
				{Terms{Epoch: 3, Target: 10, Floor: 10, Window: time.Second}, 10},
			} {
				step.terms.Algorithm, step.terms.Keep = a, time.Minute
				request := &TakeRequest{Proposal: terms(t, step.terms)}
				if step.permits > 0 {
					request.Groups = []Group{{Size: 1, Count: step.permits}}
				}
				want := twin.Take(now, request)
				got, err := server.take(now, request)
				if err != nil || got.Granted != want.Granted || got.Delay != want.Delay {
					t.Errorf("%v on %s, step %d: %v\ntwin   %+v\nserver %+v", a, name, i, err, want, got)
				}
				if head, _ := server.stored(); head != twin.head() {
					t.Errorf("%v on %s, step %d:\ntwin   %q\nserver %q", a, name, i, twin.head(), head)
				}
				now += 100_000
			}
		}
	}
}

func bucketServers(t *testing.T, a Algorithm) map[string]clockedShard {
	m := miniredis.RunT(t)
	ref := a.Keys(redistest.Prefix(t), "t", "limit")
	return map[string]clockedShard{
		"miniredis": emulated{server: m, endpoint: NewEndpoint(miniClient(t, m)), ref: ref},
		"redis":     clocked{client: redistest.Standalone(t).Client(t), uptime: 1_000_000, ref: ref},
	}
}
