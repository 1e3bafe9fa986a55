package memory

import (
	"testing"

	"pgregory.net/rapid"
)

// Whatever is claimed and released in whatever order, no ticket is claimed twice, a ticket is
// refused only if it was used or ends no later than one that was forgotten, and no more are
// remembered than may be.
func TestATicketIsClaimedOnceHoweverManyThereAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 8
		tickets := Tickets[int]{Most: most}
		ends := rapid.SliceOfN(rapid.Int64Range(1, 200), 1, 60).Draw(t, "ends")
		used := make(map[int]bool)
		now := int64(0)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			i := rapid.IntRange(0, len(ends)-1).Draw(t, "ticket")
			if used[i] && rapid.IntRange(0, 4).Draw(t, "release") == 0 {
				tickets.Release(i)
				used[i] = false
				continue
			}
			now += rapid.Int64Range(0, 2).Draw(t, "time")
			if now >= ends[i] {
				continue // refund has looked at that
			}
			unused, old := tickets.Claim(now, ends[i], i)
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
	var t1 Tickets[int64]
	const claims = 5 * MostTickets
	for i := range int64(claims) {
		if unused, _ := t1.Claim(i, i+1e12, i); !unused[0] {
			t.Fatalf("ticket %d was refused", i)
		}
	}
	if len(t1.used) > MostTickets || cap(t1.ends) > 2*MostTickets {
		t.Errorf("%d tickets, room for %d", len(t1.used), cap(t1.ends))
	}
	if unused, tooOld := t1.Claim(claims, 5+1e12, 5); unused[0] || !tooOld {
		t.Error("a refund that was forgotten was made again")
	}
}
