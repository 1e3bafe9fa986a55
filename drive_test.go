package shardlimit

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
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
				t.Errorf("shard %s is at epoch %d, %v; the change is %d", l.Tag(), r.Epoch, err, next.Epoch)
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

// A shard that has lost its memory is told of, and the record is read again, whichever call finds
// it: also one that asks for no permits.
func TestALossIsNoticedByACallThatAsksForNoPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := miniredis.NewMiniRedis()
		redis.ClockTTL(true)
		r := joinedOn(t, redis, "l", Limit{Permits: 100, Per: time.Minute, Shards: 1})
		var log bytes.Buffer
		r.core.client.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		if d, err := r.core.limiter().Allow(t.Context()); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		layout := r.core.table.Load().layout
		for _, key := range redis.Keys() {
			if strings.Contains(key, "{"+shard.Tag(layout.Shards[0].Slot)+"}:h:") {
				redis.Del(key)
			}
		}
		asked := r.askedAt.Load()
		time.Sleep(time.Second)
		l := r.core.laneTo(layout.Shards[0])
		if reply, err := r.core.propose(t.Context(), l, layout, layout.Shards[0], 0, script.Gift{}); err != nil ||
			reply.Status != script.Lost {
			t.Fatalf("%+v, %v", reply, err)
		}
		synctest.Wait()
		if !strings.Contains(log.String(), "lost its memory") {
			t.Errorf("the log says %q", log.String())
		}
		if r.askedAt.Load() == asked {
			t.Error("the record was not read again")
		}
	})
}

// Foreign data under a shard's keys keeps calls for permits away, also if a look finds it first.
func TestForeignDataThatALookFindsKeepsCallsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := miniredis.NewMiniRedis()
		redis.ClockTTL(true)
		r := joinedOn(t, redis, "l", Limit{Permits: 100, Per: time.Minute, Shards: 1})
		if _, err := r.core.limiter().Allow(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, key := range redis.Keys() {
			if strings.Contains(key, ":h:") {
				redis.Del(key)
				_, _ = redis.Lpush(key, "mine")
			}
		}
		l := r.core.table.Load().lanes[0]
		if _, err := l.Peek(t.Context(), time.Second); !errors.Is(err, script.ErrForeignState) {
			t.Fatalf("got %v", err)
		}
		if now := r.core.client.now(); l.Ready(now) || l.Shunning(now) == nil {
			t.Error("calls are still sent there")
		}
	})
}
