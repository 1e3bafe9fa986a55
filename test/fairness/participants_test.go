package fairness

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// standings is what Participants says when every shard answers, by name.
func standings(t *testing.T, l *shardlimit.Limiter, names ...string) map[string]shardlimit.ParticipantState {
	t.Helper()
	list, err := l.Participants(t.Context())
	limittest.Must(t, err)
	known := map[string]string{"": "newcomers"}
	for _, name := range names {
		known[shardlimit.ParticipantID(name)] = name
	}
	found := make(map[string]shardlimit.ParticipantState)
	for i, p := range list {
		if known[p.ID] == "" {
			t.Errorf("a participant that nobody knows: %+v", p)
		}
		if i > 0 && p.Used > list[i-1].Used {
			t.Errorf("%d permits come after %d", p.Used, list[i-1].Used)
		}
		found[known[p.ID]] = p
	}
	return found
}

// From the first refusal on, every permit is in somebody's account.
func TestParticipantsSumsOverTheShards(t *testing.T) {
	for place, shards := range map[string]int{"embedded": 1, "cluster": 4} {
		t.Run(place, func(t *testing.T) {
			limit := shardlimit.Limit{Permits: 400, Per: 30 * 24 * time.Hour, Shards: shards}
			l := limittest.Places[place](t).Limiter(t, limit)
			ann, bob := l.As("ann", 1), l.As("bob", 3)
			limittest.MustGet(t, ann, 200)
			if got := standings(t, l); len(got) != 0 {
				t.Errorf("nobody contends, but there are %+v", got)
			}
			for range 2 { // once to be refused, once to be seen again
				limittest.Denied(t, ann, 300)
			}
			granted := map[string]int64{}
			for range 40 {
				for name, who := range map[string]*shardlimit.Limiter{"ann": ann, "bob": bob} {
					d, err := who.AllowUpTo(t.Context(), 5)
					limittest.Must(t, err)
					granted[name] += d.Granted
				}
			}
			got := standings(t, l, "ann", "bob")
			if got["ann"].Weight != 1 || got["bob"].Weight != 3 {
				t.Errorf("%+v", got)
			}
			if sum := got["ann"].Used + got["bob"].Used + got["newcomers"].Used; sum != granted["ann"]+granted["bob"] {
				t.Errorf("%d permits in the accounts, granted were %v: %+v", sum, granted, got)
			}
		})
	}
}

// The process' own name is a name like others: what As says of its weight counts.
func TestAsMayGiveTheProcessAnotherWeight(t *testing.T) {
	f := limittest.Standalone(t)
	client := f.Client(t, func(c *shardlimit.Config) { c.Participant = "me" })
	own := limittest.Limiter(t, client, "l", shardlimit.Limit{Permits: 10, Per: 30 * 24 * time.Hour, Shards: 1})
	for _, weight := range []float64{1, 3, 1} {
		for range 3 { // to be granted once, to be refused, to be seen again
			limittest.Must(t, limittest.Err(own.As("me", weight).AllowN(t.Context(), 9)))
		}
		if got := standings(t, own, "me")["me"].Weight; got != weight {
			t.Errorf("weight %v, want %v", got, weight)
		}
	}
}

func TestParticipantsTellsEntitlements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where a busy machine asks for as much as any
		l := limittest.Bubbled(t, 2).Limiter(t, shardlimit.Limit{Permits: 200, Per: 2 * time.Second, Shards: 2})
		ann, bob := l.As("ann", 1), l.As("bob", 3)
		limittest.AwaitThat(t, "bob is entitled to three times what ann is, all in all to the limit", func() bool {
			for range 10 {
				for _, who := range []*shardlimit.Limiter{ann, bob} {
					limittest.Must(t, limittest.Err(who.Allow(t.Context())))
				}
			}
			got := standings(t, l, "ann", "bob")
			a, b := got["ann"].Entitlement, got["bob"].Entitlement
			return a > 0 && math.Abs(b/a-3) < 0.1 && math.Abs(a+b-200) < 10
		})
	})
}

func TestParticipantsOfWhatDoesNotAnswer(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
		client := f.Client(t)
		l := limittest.Limiter(t, client, "l", shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 2})
		all := limittest.MustGet(t, l, 100)
		limittest.ForgetDenials(l)
		limittest.Denied(t, l, 1) // refused by both: from here on they keep accounts
		limittest.Must(t, l.Settle(t.Context(), all, 0))
		limittest.MustGet(t, l, 100)
		if list, err := l.Participants(t.Context()); err != nil || usedBy(list) != 100 {
			t.Fatalf("%+v, %v", list, err)
		}
		f.Bubble[0].Down.Store(true)
		var missing *shardlimit.ShardError
		list, err := l.Participants(t.Context())
		if !errors.As(err, &missing) || missing.Node != "n0" || errors.Is(err, shardlimit.ErrUnavailable) ||
			usedBy(list) != 50 {
			t.Errorf("without n0: %+v, %v", list, err)
		}
		f.Bubble[1].Down.Store(true)
		if list, err := l.Participants(t.Context()); !errors.Is(err, shardlimit.ErrUnavailable) || len(list) != 0 {
			t.Errorf("without any: %+v, %v", list, err)
		}
		client.Close()
		limittest.ErrorIs(t, limittest.Err(l.Participants(t.Context())), shardlimit.ErrClosed, "closed")
	})
}

// usedBy sums up what participants used.
func usedBy(list []shardlimit.ParticipantState) (n int64) {
	for _, p := range list {
		n += p.Used
	}
	return n
}
