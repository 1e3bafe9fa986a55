package script

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/race"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// bookedTwin draws a shard that grants, books ahead and takes back, and how many permits it has
// when nothing is in use.
func bookedTwin(t *rapid.T, a Algorithm) (twin Twin, p *Proposal, now, most int64) {
	target := rapid.SampledFrom([]int64{1, 5, 17, 100, 1000}).Draw(t, "target")
	burst := rapid.SampledFrom([]int64{1, target/3 + 1, target, 3 * target}).Draw(t, "burst")
	p = terms(t, Terms{Epoch: 1, Target: target, Floor: target, Window: 3 * time.Second, Algorithm: a, Burst: burst})
	if most = target; a.bursty() {
		most = burst
	}
	twin, now = NewTwin(a), epoch0+rapid.Int64Range(0, 1e7).Draw(t, "now")
	twin.Take(now, &TakeRequest{Proposal: p})
	var held []holding
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		now += rapid.Int64Range(0, 600_000).Draw(t, "gap")
		n := rapid.Int64Range(1, max(1, most/2)).Draw(t, "permits")
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0, 1:
			r := twin.Take(now, &TakeRequest{Proposal: p, Groups: []Group{{Size: 1, Count: n}}})
			held = append(held, holding{permits: r.Granted, at: r.RefundAt(max(r.Granted-1, 0))})
		case 5:
			if len(held) > 0 && held[len(held)-1].permits > 0 {
				last := held[len(held)-1]
				reply := twin.Refund(now, RefundRequest{Permits: last.permits, At: last.at})
				if free := twin.Peek(now).Free; reply.Free != free {
					t.Fatalf("%d free by the refund, %d by the look", reply.Free, free)
				}
				held = held[:len(held)-1]
			}
		default:
			r := twin.Reserve(now, &ReserveRequest{
				Proposal: p, Permits: n, MaxDelay: 10 * time.Second, MaxBooked: MaxPermits,
				MinDelay: duration(rapid.SampledFrom([]int64{0, 0, 1, 400_000, 3_500_000}).Draw(t, "after")),
			})
			held = append(held, holding{permits: r.Granted, at: r.At})
		}
	}
	return twin, p, now, most
}

// freeAt is what a look says will be free later, and when first so many will be.
func (p *PeekReply) freeAt(in time.Duration, most int64) (free int64) {
	for _, load := range p.Beside {
		if load.In <= in {
			free = max(most-load.Permits, 0)
		}
	}
	return free
}

// when is what a look says of when so many permits will be free.
func (p *PeekReply) when(n, most int64) time.Duration {
	i := slices.IndexFunc(p.Beside, func(load Load) bool { return most-load.Permits >= n })
	return p.Beside[i].In
}

// exact reports whether nothing is merged in what a look says.
func (p *PeekReply) exact(twin Twin, now int64) bool {
	log, ok := twin.(*SlidingLog)
	if !ok {
		return p.Used <= MaxReleases
	}
	v := log.look(now)
	ahead, _ := slices.BinarySearchFunc(log.closed, v.now+1, byDate)
	return log.share <= exactShare && len(log.closed)-v.live < MaxReleases && len(log.closed)-ahead < mostCrests
}

// TestPeekSaysWhatTakesWillHave beside what is booked ahead, now and later: never more than there
// will be, and all of it where nothing is merged.
func TestPeekSaysWhatTakesWillHave(t *testing.T) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), func(t *testing.T) {
			rises, exacts := 0, 0
			rapid.Check(t, func(t *rapid.T) {
				twin, p, now, most := bookedTwin(t, a)
				peek := twin.Peek(now)
				exact := peek.exact(twin, now)
				if exact {
					exacts++
				}
				for i, load := range peek.Beside {
					if i > 0 && load.Permits > peek.Beside[i-1].Permits {
						rises++
					}
					for _, off := range []int64{0, -1, rapid.Int64Range(1, 1e6).Draw(t, "later")} {
						in := max(int64(load.In/time.Microsecond)+off, 0)
						if said, free := peek.freeAt(duration(in), most), twin.Peek(now+in).Free; said > free ||
							said < free && exact {
							t.Fatalf("%d free in %d us, not %d: %+v", free, in, said, peek)
						}
					}
				}
				size := rapid.Int64Range(1, most).Draw(t, "size")
				when := peek.when(size, most)
				reply := twin.Take(now, &TakeRequest{Proposal: p, Groups: []Group{{Size: size, Count: 1}}})
				if (reply.Granted == size) != (size <= peek.Free) || when < reply.Retry || when > reply.Retry && exact {
					t.Fatalf("%d permits of %d: Retry is %v, by the look it is %v: %+v", size, peek.Free, reply.Retry,
						when, peek)
				}
				if next := peek.when(1, most); reply.Granted == 0 && peek.Free == 0 &&
					(next < reply.Next || next > reply.Next && exact) {
					t.Fatalf("Next is %v, by the look it is %v: %+v", reply.Next, next, peek)
				}
				all := twin.Take(now, &TakeRequest{Proposal: p, Groups: []Group{{Size: 1, Count: 2 * most}}})
				if reply.Granted == 0 && all.Granted != peek.Free {
					t.Fatalf("%d were granted, %d were free", all.Granted, peek.Free)
				}
			})
			if gaps := a == AlgorithmSlidingLog || a == AlgorithmFixedWindow; !race.Enabled &&
				(exacts == 0 || gaps && rises == 0) {
				t.Errorf("%d looks in which nothing was merged, %d bookings that draw near", exacts, rises)
			}
		})
	}
}

// TestPeekTellsOfALogDamagedAheadOfTheClock, as a take does. A refund that has been made is not
// called an error for it: it would be made again.
func TestPeekTellsOfALogDamagedAheadOfTheClock(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		ctx, endpoint, p := context.Background(), NewEndpoint(client), proposal(t, 1, 100, time.Hour)
		ref := ShardKeys(redistest.Prefix(t), "t", "limit")
		var last ReserveReply
		for _, delay := range []time.Duration{30 * time.Minute, 40 * time.Minute} {
			r := &ReserveRequest{Proposal: p, Permits: 10, MinDelay: delay, MaxDelay: delay, MaxBooked: 100}
			var err error
			if last, err = endpoint.Reserve(ctx, ref, r); err != nil || last.Granted != 10 {
				t.Fatalf("%+v, %v", last, err)
			}
		}
		members, err := command(t, client, "ZRANGE", ref.log, "0", "-1").AsStrSlice()
		if err != nil || len(members) != 1 {
			t.Fatal(members, err)
		}
		command(t, client, "ZREM", ref.log, members[0])
		command(t, client, "ZADD", ref.log, strings.TrimSpace(members[0][:16]), members[0][:41]+"x")
		for name, call := range map[string]func() error{
			"take": func() error { _, err := endpoint.Take(ctx, ref, ones(p, 1)); return err },
			"peek": func() error { _, err := endpoint.Peek(ctx, ref); return err },
		} {
			var state *StateError
			if err := call(); !errors.As(err, &state) || state.Key != ref.log {
				t.Errorf("%s: %v", name, err)
			}
		}
		if r, err := endpoint.Refund(ctx, ref, RefundRequest{Permits: 4, At: last.At}); err != nil || r.Refunded != 4 ||
			r.Free != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestMalformedPeekReplies: what no script of ours sends is an error, for every algorithm.
func TestMalformedPeekReplies(t *testing.T) {
	log := []int64{1, 1, 10, 10, 0, 9, 1_000_000, 0, 5, 2, 0, 4, 4, 3, 9, 9, 1, 4, 5, 5}
	packed := []int64{1, 1, 10, 10, 0, 4, 1_000_000, 0, 5, 6, 2, 0, 4, 5, 9, 5, 4}
	parse := map[string]func([]rueidis.RedisMessage) (PeekReply, error){"log": parsePeek, "packed": parsePackedPeek}
	for name, good := range map[string][]int64{"log": log, "packed": packed} {
		try := func(what string, malformed bool, numbers []int64) {
			var elements [][]byte
			for _, n := range numbers {
				elements = append(elements, integer(n))
			}
			if reply, err := parse[name](message(t, elements)); errors.Is(err, ErrMalformedReply) != malformed {
				t.Errorf("%s, %s: %+v, %v", name, what, reply, err)
			}
		}
		count := map[string]int{"log": 9, "packed": 10}[name]
		try("good", false, good)
		try("absent", false, make([]int64, count+1))
		try("short", true, good[:count])
		try("a release without permits", true, good[:len(good)-1])
		try("too many releases", true, append(slices.Clone(good), make([]int64, 2*MaxReleases)...))
		for _, n := range []int64{-1, 1000, math.MaxInt64} {
			changed := slices.Clone(good)
			changed[count] = n
			try(fmt.Sprint("a count of ", n), true, changed)
			changed[count], changed[count+2] = good[count], min(n, -n)
			try(fmt.Sprint("permits of ", min(n, -n)), true, changed)
		}
	}
}

// TestPeekBetweenBookingsThatShareAnEntry, of which one is due and the other is not: all of them
// are in the window.
func TestPeekBetweenBookingsThatShareAnEntry(t *testing.T) {
	beside(t, func(t *testing.T, log redisLog) {
		p := ofTenth(t, 1, 1000)
		crowd(t, log, p)
		gets(t, log, p, 50_000, 300)
		books(t, log, p, 51_000, 149_900, 600)
		books(t, log, p, 51_000, 150_300, 1)
		peek, err := log.peek(crestsBegin + 150_000)
		if err != nil || peek.Free != 399 || peek.Used != 601 {
			t.Errorf("%+v, %v", peek, err)
		}
		if got := gets(t, log, p, 150_000, 1000); got != peek.Free {
			t.Errorf("%d were granted, %d were free", got, peek.Free)
		}
	})
}
