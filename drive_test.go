package shardlimit

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/script"
)

// A process stores a change, and before it tells any shard, it learns that another one has stored
// a later change and told nobody either. It returns when every shard obeys one of the two.
func TestAChangeIsToldToTheShardsAlthoughALaterOneIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := miniredis.NewMiniRedis()
		redis.ClockTTL(true)
		process := func() *register { return joinedOn(t, redis, "l", Limit{Permits: 100, Per: time.Second, Shards: 4}) }
		mine, other := process(), process()
		next, err := mine.propose(t.Context(), Limit{Permits: 20, Per: time.Second, Shards: 4}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.propose(t.Context(), Limit{Permits: 30, Per: time.Second, Shards: 4}, nil); err != nil {
			t.Fatal(err)
		}
		if err := mine.sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now := mine.core.table.Load().layout.Epoch; now <= next.Epoch {
			t.Fatalf("epoch %d does not follow %d", now, next.Epoch)
		}
		if err := mine.putInForce(t.Context(), *next); err != nil {
			t.Fatal(err)
		}
		for _, s := range next.Shards {
			l := mine.core.laneTo(s)
			if r, err := l.Peek(t.Context(), time.Second); err != nil || r.Epoch < next.Epoch {
				t.Errorf("shard %s is at epoch %d, %v; the change is %d", l.Tag, r.Epoch, err, next.Epoch)
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
		r := joinedOn(t, redis, "l", Limit{Permits: 100, Per: time.Second, Shards: 1})
		next, err := r.propose(t.Context(), Limit{Permits: 20, Per: time.Second, Shards: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		later := *next
		later.Epoch += 1000
		l := r.core.laneTo(next.Shards[0])
		if _, err := r.core.propose(t.Context(), l, later, next.Shards[0], 0, script.Gift{}); err != nil {
			t.Fatal(err)
		}
		if err := r.putInForce(t.Context(), *next); !errors.Is(err, errOvertaken) {
			t.Errorf("got %v", err)
		}
	})
}

// joinedOn is a process of its own that has joined a limit on a server.
func joinedOn(t *testing.T, redis *miniredis.Miniredis, name string, limit Limit) *register {
	t.Helper()
	c, err := New(Config{CallTimeout: time.Second, Nodes: []Node{{Name: "n", Redis: rueidis.ClientOption{
		InitAddress: []string{"n:1"}, ForceSingleClient: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return redis.Dial() },
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l, err := c.Limiter(t.Context(), name, limit)
	if err != nil {
		t.Fatal(err)
	}
	return l.core.register
}
