package shardlimit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"
)

// Whatever is claimed and released in whatever order, no ticket is claimed twice, a ticket is
// refused only if it was used or ends no later than one that was forgotten, and no more are
// remembered than may be.
func TestATicketIsClaimedOnceHoweverManyThereAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 8
		tickets := tickets{most: most}
		ends := rapid.SliceOfN(rapid.Int64Range(1, 200), 1, 60).Draw(t, "ends")
		used := make(map[int]bool)
		now := int64(0)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			i := rapid.IntRange(0, len(ends)-1).Draw(t, "ticket")
			key := ticketKey{number: uint64(i)}
			if used[i] && rapid.IntRange(0, 4).Draw(t, "release") == 0 {
				tickets.release(key)
				used[i] = false
				continue
			}
			now += rapid.Int64Range(0, 2).Draw(t, "time")
			if now >= ends[i] {
				continue // refund has looked at that
			}
			unused, old := tickets.claim(now, ends[i], key)
			got := unused[0]
			if got && used[i] {
				t.Fatalf("ticket %d was claimed twice", i)
			}
			if want := !used[i] && !old; got != want && !got {
				t.Fatalf("ticket %d was refused: used %t, too old %t", i, used[i], old)
			}
			used[i] = used[i] || got
			if len(tickets.ends) > most || len(tickets.used) > most {
				t.Fatalf("%d and %d are remembered, at most %d may be", len(tickets.ends), len(tickets.used), most)
			}
		}
	})
}

// Many more refunds within one window than are remembered leave no more behind than the bound says.
func TestRefundsAreRememberedInBoundedMemory(t *testing.T) {
	var t1 tickets
	const claims = 5 * mostTickets
	for i := range int64(claims) {
		if unused, _ := t1.claim(i, i+1e12, ticketKey{number: uint64(i)}); !unused[0] {
			t.Fatalf("ticket %d was refused", i)
		}
	}
	if len(t1.used) > mostTickets || cap(t1.ends) > 2*mostTickets {
		t.Errorf("%d tickets, room for %d", len(t1.used), cap(t1.ends))
	}
	if unused, tooOld := t1.claim(claims, 5+1e12, ticketKey{number: 5}); unused[0] || !tooOld {
		t.Error("a refund that was forgotten was made again")
	}
}

// A decision of several parts is refunded when as many refunds as may be remembered are of later
// decisions: all its parts are given back, once.
func TestAllPartsAreGivenBackAlthoughTheirTicketsAreForgottenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := miniredis.NewMiniRedis()
		redis.ClockTTL(true)
		c := joinedOn(t, redis, "other", PerHour(1)).core.client
		family, err := c.Family(t.Context(), "l", Limit{Permits: 40, Per: time.Hour, Shards: 4})
		if err != nil {
			t.Fatal(err)
		}
		l := family.Limiter("ann")
		d, err := l.AllowN(t.Context(), 35)
		if err != nil || !d.Allowed || len(d.parts()) < 2 {
			t.Fatalf("%+v, %v", d, err)
		}
		for i := range keyTickets {
			time.Sleep(time.Millisecond)
			later, err := l.Allow(t.Context())
			if err != nil || !later.Allowed {
				t.Fatalf("%d: %+v, %v", i, later, err)
			}
			if err := l.Refund(t.Context(), later); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Refund(t.Context(), d); err != nil {
			t.Error(err)
		}
		if st, err := l.Peek(t.Context()); err != nil || st.Used != 0 {
			t.Errorf("%d permits are still used, %v", st.Used, err)
		}
		if again, err := l.AllowN(t.Context(), 35); err != nil || !again.Allowed {
			t.Fatalf("%+v, %v", again, err)
		}
		if err := l.Refund(t.Context(), d); !errors.Is(err, ErrRefundTooOld) {
			t.Errorf("once more: %v", err)
		}
		if st, err := l.Peek(t.Context()); err != nil || st.Used != 35 {
			t.Errorf("%d permits are used, %v", st.Used, err)
		}
	})
}

// What shards showed of a layout says nothing of the limit that is declared after it was deleted.
func TestALimitThatIsDeclaredAfterDeleteIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := miniredis.NewMiniRedis()
		redis.ClockTTL(true)
		r := joinedOn(t, redis, "l", Limit{Permits: 10, Per: time.Minute, Shards: 2})
		l, err := r.core.client.Limiter(t.Context(), "l", Limit{Permits: 10, Per: time.Minute, Shards: 2})
		if err != nil {
			t.Fatal(err)
		}
		// A change that was made while the server's clock was an hour ahead.
		r.highest.Store(time.Now().Add(time.Hour).UnixMicro())
		if err := l.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d, err := l.AllowN(t.Context(), 10); err != nil || !d.Allowed || d.Degraded {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
