package shardlimit_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

func TestAKeyWithALimitOfItsOwn(t *testing.T) {
	servers := standalone(t)
	here, there := servers.client(t), servers.client(t)
	users, same := keyed(t, here, "users", shardlimit.PerHour(3)), keyed(t, there, "users", shardlimit.PerHour(3))
	if got := grants(t, same.Limiter("ann")); got != 3 {
		t.Fatalf("%d permits of 3", got)
	}
	if err := users.Limiter("ann").SetLimit(t.Context(), shardlimit.PerHour(10)); err != nil {
		t.Fatal(err)
	}
	if got := users.Limiter("ann").Limit(); got.Permits != 10 || got.Shards != 1 {
		t.Errorf("the key has %v", got)
	}
	more := 0
	awaitThat(t, "the other process learns of it from the key", func() bool {
		d, err := same.Limiter("ann").Allow(t.Context())
		more += int(d.Granted)
		return err == nil && same.Limiter("ann").Limit().Permits == 10
	})
	more += grants(t, users.Limiter("ann")) + grants(t, same.Limiter("ann"))
	if bob := grants(t, same.Limiter("bob")); more != 7 || bob != 3 {
		t.Errorf("%d more permits, not 7; another key %d", more, bob)
	}
	if err := same.SetLimit(t.Context(), shardlimit.PerHour(5)); err != nil {
		t.Fatal(err)
	}
	if own := same.OwnLimits(); len(own) != 1 || own["ann"].Permits != 10 || own["ann"].Per != time.Hour {
		t.Errorf("own limits are %v", own)
	}
	if err := same.Limiter("ann").UnsetLimit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := same.Limiter("ann").Limit().Permits; got != 5 || len(same.OwnLimits()) != 0 {
		t.Errorf("the key has %d, and own limits are %v", got, same.OwnLimits())
	}
	if got := grants(t, same.Limiter("ann")); got != 0 {
		t.Errorf("what was used is forgotten: %d permits", got)
	}
}

// What is stored is what a process that comes later finds.
func TestAnOwnLimitIsStored(t *testing.T) {
	servers := standalone(t)
	first := servers.client(t)
	if err := keyed(t, first, "users", shardlimit.PerHour(3)).Limiter("ann").SetLimit(t.Context(),
		shardlimit.PerMinute(7)); err != nil {
		t.Fatal(err)
	}
	first.Close()
	users := keyed(t, servers.client(t), "users", shardlimit.PerHour(3))
	if got := grants(t, users.Limiter("ann")); got != 7 || users.Limiter("ann").Limit().Per != time.Minute {
		t.Errorf("%d permits of 7 by %v", got, users.Limiter("ann").Limit())
	}
}

func TestAnOwnLimitMustBePossible(t *testing.T) {
	c := standalone(t).client(t)
	bucket := shardlimit.Limit{Permits: 5, Per: time.Second, Algorithm: shardlimit.TokenBucket}
	users := keyed(t, c, "users", bucket)
	ann, ctx := users.Limiter("ann"), t.Context()
	own := bucket
	own.Burst = 50
	if err := ann.SetLimit(ctx, own); err != nil {
		t.Fatal(err)
	}
	alone, err := c.Limiter(ctx, "alone", shardlimit.PerHour(1))
	if err != nil {
		t.Fatal(err)
	}
	revised := own
	revised.Revision = 3
	log := shardlimit.PerSecond(5)
	for name, c := range map[string]struct{ got, want error }{
		"none at all":           {ann.SetLimit(ctx, shardlimit.Limit{}), shardlimit.ErrInvalidLimit},
		"another algorithm":     {ann.SetLimit(ctx, log), shardlimit.ErrInvalidLimit},
		"a revision":            {ann.SetLimit(ctx, revised), shardlimit.ErrInvalidLimit},
		"an empty key":          {users.Limiter("").SetLimit(ctx, own), shardlimit.ErrInvalidName},
		"no key":                {alone.UnsetLimit(ctx), shardlimit.ErrNoKey},
		"a family without room": {users.SetLimit(ctx, log), shardlimit.ErrInvalidLimit},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v", name, c.got)
		}
	}
	if err := users.SetLimit(ctx, log); err == nil || !strings.Contains(err.Error(), `"ann"`) {
		t.Errorf("the key is not named: %v", err)
	}
	if err := ann.UnsetLimit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := users.SetLimit(ctx, log); err != nil {
		t.Errorf("once no key stands in its way: %v", err)
	}
	c.Close()
	if err := ann.SetLimit(ctx, own); !errors.Is(err, shardlimit.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestAnOwnLimitOfEachParticipant(t *testing.T) {
	limit := shardlimit.PerHour(3)
	limit.Scope = shardlimit.PerParticipant
	users := keyed(t, standalone(t).client(t), "users", limit)
	own := limit
	own.Permits = 8
	if err := users.Limiter("ann").SetLimit(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	if ann, bob := grants(t, users.Limiter("ann")), grants(t, users.Limiter("bob")); ann != 8 || bob != 3 {
		t.Errorf("%d and %d permits", ann, bob)
	}
}

// A key that nobody has used yet has all of its own limit at once.
func TestAnUnusedKeyHasAllOfItsOwnLimit(t *testing.T) {
	t.Parallel()
	onEither(t, func(t *testing.T, f fleet) {
		for a := shardlimit.SlidingLog; a <= shardlimit.LeakyBucket; a++ {
			fam := keyed(t, f.client(t), a.String(), shardlimit.Limit{Permits: 1, Per: time.Hour, Algorithm: a})
			own := shardlimit.Limit{Permits: 3, Per: time.Hour, Algorithm: a}
			l := fam.Limiter("unused")
			if err := l.SetLimit(t.Context(), own); err != nil {
				t.Fatal(err)
			}
			mustGet(t, l, 3)
		}
	})
}
