package call

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// joinedOn returns a process of its own that has joined a limit on a server.
func joinedOn(t *testing.T, redis *miniredis.Miniredis, name string, declared limit.Limit) (*Client, *Target) {
	t.Helper()
	c, err := New(limit.Config{CallTimeout: time.Second, Nodes: []node.Spec{{Name: "n", Option: rueidis.ClientOption{
		InitAddress: []string{"n:1"}, ForceSingleClient: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return redis.Dial() },
	}}}}, limit.Errors{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l, err := c.Declare(t.Context(), Limiters, name, declared)
	if err != nil {
		t.Fatal(err)
	}
	return c, l
}

// A shard that has lost its memory is told of, and the record is read again, whichever call finds
// it: also one that asks for no permits.
func TestALossIsNoticedByACallThatAsksForNoPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := miniredis.NewMiniRedis()
		redis.ClockTTL(true)
		_, c := joinedOn(t, redis, "l", limit.Limit{Permits: 100, Per: time.Minute, Shards: 1})
		var log bytes.Buffer
		c.Process.Config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		l, d := Limiter{Target: c, member: &c.member}, Decision{}
		if err := l.Allow(t.Context(), 1, false, &d); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		layout := c.Routes.Load().Layout
		for _, key := range redis.Keys() {
			if strings.Contains(key, "{"+shard.Tag(layout.Shards[0].Slot)+"}l:") {
				redis.Del(key)
			}
		}
		asked := c.Register.Believed(layout.Epoch, c.Process.Clock.Elapsed())
		time.Sleep(time.Second)
		offer := &register.Offer{Layout: layout, Shard: layout.Shards[0]}
		if reply, err := c.Register.Limit.Propose(t.Context(), offer); err != nil || reply.Status != script.Lost {
			t.Fatalf("%+v, %v", reply, err)
		}
		synctest.Wait()
		if !strings.Contains(log.String(), "lost its memory") {
			t.Errorf("the log says %q", log.String())
		}
		if c.Register.Believed(layout.Epoch, c.Process.Clock.Elapsed()) == asked {
			t.Error("the record was not read again")
		}
	})
}
