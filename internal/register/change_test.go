package register

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/alicebob/miniredis/v2"
)

// A process stores a change, and before it tells any shard, it learns that another one has stored
// a later change and told nobody either. It returns when every shard obeys one of the two.
func TestAChangeIsToldToTheShardsAlthoughALaterOneIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := miniredis.NewMiniRedis()
		redis.ClockTTL(true)
		mine, other := processOn(t, redis, wanted(100, 4)), processOn(t, redis, wanted(100, 4))
		next, err := mine.propose(t.Context(), wanted(20, 4))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.propose(t.Context(), wanted(30, 4)); err != nil {
			t.Fatal(err)
		}
		if err := mine.register.Ask(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if now := mine.Layout().Epoch; now <= next.Epoch {
			t.Fatalf("epoch %d does not follow %d", now, next.Epoch)
		}
		if err := mine.register.putInForce(t.Context(), *next); err != nil {
			t.Fatal(err)
		}
		for _, s := range next.Shards {
			if epoch := mine.epochAt(t, s); epoch < next.Epoch {
				t.Errorf("shard %d is at epoch %d; the change is %d", s.Slot, epoch, next.Epoch)
			}
		}
	})
}

// Shards obey a later layout than the one that was just stored, and no record tells of it: so it
// is not in force, and that is an error.
func TestAChangeThatShardsDoNotObeyIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := miniredis.NewMiniRedis()
		redis.ClockTTL(true)
		p := processOn(t, redis, wanted(100, 1))
		next, err := p.propose(t.Context(), wanted(20, 1))
		if err != nil {
			t.Fatal(err)
		}
		later := *next
		later.Epoch += 1000
		if _, err := p.Propose(t.Context(), &Offer{Layout: later, Shard: next.Shards[0]}); err != nil {
			t.Fatal(err)
		}
		if err := p.register.putInForce(t.Context(), *next); !errors.Is(err, errOvertaken) {
			t.Errorf("got %v", err)
		}
	})
}
