package script

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// canceller books n permits, and cancels after a time, or 20 ms before they are due if that is
// sooner. Then it books again at once. What is due before it can cancel is used.
func canceller(n int64, after time.Duration) func(r *rivals, who int) time.Duration {
	var held ReserveReply
	var since int64
	return func(r *rivals, who int) time.Duration {
		if held.Granted > 0 {
			r.cancel(who, held, since)
		}
		since, held = r.now, r.books(who, n)
		if held.Granted == 0 {
			return max(held.Paced, held.Again, time.Millisecond)
		}
		return max(min(after, held.Delay-20*time.Millisecond), time.Millisecond)
	}
}

// books books n permits for the first instant at which there is room.
func (r *rivals) books(who int, n int64) ReserveReply {
	req := &ReserveRequest{Proposal: r.proposal, Permits: n, MaxDelay: time.Minute, MaxBooked: rivalShare,
		Caller: r.caller(who)}
	req.Caller.Waiting = n
	reply, err := r.shard.reserve(r.now, req)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply
}

// cancel gives back what was booked at an instant, unless it is due.
func (r *rivals) cancel(who int, held ReserveReply, since int64) {
	if r.now-since >= held.date() {
		r.got[who] += held.Granted
		return
	}
	back := RefundRequest{Permits: held.Granted, At: held.At, Caller: r.caller(who), Held: held.Delay}
	if _, err := r.shard.refund(r.now, back); err != nil {
		r.t.Fatal(err)
	}
}

// hasty is a taker that does not sleep for long because a shard was empty, as a process does.
func hasty(r *rivals, who int) time.Duration { return min(taker(r, who), 100*time.Millisecond) }

// TestBookingsThatAreCancelledKeepNothingFromOthers: one participant books ahead and cancels, again
// and again. The nine others, who take what is free, keep nine tenths of their parts.
func TestBookingsThatAreCancelledKeepNothingFromOthers(t *testing.T) {
	trial := func(t *testing.T, shard counter, a Algorithm, n int64, after time.Duration, windows int64) {
		r := newRivals(t, shard, a)
		r.join(9, hasty)
		r.run(3)
		r.join(1, canceller(n, after))
		r.run(2)
		got, total := r.run(windows)[:9], int64(0)
		for _, permits := range got {
			total += permits
		}
		kept := float64(total) / float64(windows*rivalShare*9/10)
		t.Logf("the nine have %.2f of their parts: %v", kept, got)
		if kept < 0.9 {
			t.Errorf("the nine have %.2f of their parts", kept)
		}
	}
	for _, after := range []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Hour} {
		for n := int64(rivalShare / 4); n <= rivalShare; n += rivalShare / 4 {
			for a := range AlgorithmLeakyBucket {
				t.Run(fmt.Sprint(n, " for ", after, " ", a), func(t *testing.T) {
					trial(t, local{NewTwin(a)}, a, n, after, 16)
				})
			}
		}
	}
	t.Run("everywhere", func(t *testing.T) {
		everywhere(t, func(t *testing.T, shard counter, a Algorithm) {
			trial(t, shard, a, rivalShare, time.Hour, 3)
		})
	})
}

// TestWhoCancelsNowAndThenKeepsItsPart: all ten book n permits, wait for them and use them. One
// of them cancels every twentieth booking shortly before it is due.
func TestWhoCancelsNowAndThenKeepsItsPart(t *testing.T) {
	for _, n := range []int64{2, 10, 20} {
		r := newRivals(t, local{NewTwin(AlgorithmSlidingLog)}, AlgorithmSlidingLog)
		patient := func(every int) func(r *rivals, who int) time.Duration {
			var held ReserveReply
			var since int64
			count := 0
			return func(r *rivals, who int) time.Duration {
				if held.Granted > 0 {
					r.cancel(who, held, since)
				}
				since, held = r.now, r.books(who, n)
				if held.Granted == 0 {
					return max(held.Paced, held.Again, time.Millisecond)
				}
				if count++; count%every == 0 {
					return max(held.Delay-time.Millisecond, time.Millisecond)
				}
				return max(held.Delay, time.Millisecond)
			}
		}
		for range 9 {
			r.join(1, patient(math.MaxInt))
		}
		r.join(1, patient(20))
		r.run(5)
		const windows = 200
		got := r.run(windows)
		kept := float64(got[9]) / (windows * rivalShare / 10)
		t.Logf("%d at a time: it has %.3f of its part: %v", n, kept, got)
		if kept < 0.95 {
			t.Errorf("%d at a time: it has %.3f of its part", n, kept)
		}
	}
}
