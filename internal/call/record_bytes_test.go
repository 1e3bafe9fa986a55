package call

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// storedLayouts returns records to begin with.
func storedLayouts(tb testing.TB) (blobs [][]byte) {
	tb.Helper()
	for a := range limit.Algorithms {
		first := limit.Limit{Permits: 100, Per: time.Minute, Algorithm: a, Shards: 3}
		if a.Bursty() {
			first.Burst = 50
		}
		at := shard.Arrange("n:l", first.Permits, 3, []shard.Node{{Name: "n0", Weight: 1}, {Name: "n1", Weight: 1}})
		l, err := shard.New(nil, 7, first.Wanted().Spec, at)
		if err != nil {
			tb.Fatal(err)
		}
		other := first
		other.Algorithm, other.Burst = (a+1)%limit.Algorithms, 0
		next, err := l.Change(8, other.Wanted().Spec, at[:1:1], time.Second)
		if err != nil {
			next = l
		}
		for _, layout := range []shard.Layout{l, next} {
			if blob, err := json.Marshal(layout); err == nil {
				blobs = append(blobs, blob)
			}
		}
	}
	return blobs
}

// Whatever bytes stand in a record, a process either refuses them with a typed error or works with
// the layout: it chooses shards, and reads what shards say, without a panic.
func TestAnyBytesInARecordAreRefusedOrUsed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	used := 0
	for _, blob := range append(storedLayouts(t), []byte(`{"v":1}`)) {
		for range extent.Some(40) {
			altered := slices.Clone(blob)
			for range rng.IntN(3) {
				digits := "0123456789-\"x"
				altered[rng.IntN(len(altered))] = digits[rng.IntN(len(digits))]
			}
			if useRecord(t, altered, rng.Int64N(200), rng.Int64N(200), rng.Int64N(200)) {
				used++
			}
		}
	}
	if used == 0 {
		t.Error("no layout was used")
	}
}

// useRecord reports whether the bytes were a layout that can be used.
func useRecord(t *testing.T, blob []byte, n, share, target int64) bool {
	t.Helper()
	var layout shard.Layout
	if json.Unmarshal(blob, &layout) != nil {
		return false
	}
	c := offline(t)
	co, err := c.target(Limiters, "l", limit.Limit{Permits: 5, Per: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := co.Register.Limit.Adopt(layout); err != nil {
		if !errors.Is(err, register.ErrUnreadable) || co.Routes.Load() != nil {
			t.Errorf("%q: adopted with %v", blob, err)
		}
		return false
	}
	useRoutes(co, n+1, &script.PeekReply{Status: script.OK, Share: share, Target: target})
	return true
}

// offline returns a Client whose nodes are never reached.
func offline(tb testing.TB) *Client {
	tb.Helper()
	option := func(addr string) rueidis.ClientOption { return rueidis.ClientOption{InitAddress: []string{addr}} }
	c, err := New(limit.Config{Nodes: []node.Spec{{Name: "n0", Option: option("127.0.0.1:1")},
		{Name: "n1", Option: option("127.0.0.1:2")}}}, limit.Errors{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// useRoutes does what calls do with routes before they send anything, and after they had an answer.
func useRoutes(co *Target, n int64, reply *script.PeekReply) {
	m, r, now := co.Members.own, co.Routes.Load(), co.Process.Now()
	v := m.View(r)
	var done tried
	for i := v.choose(now, n, &done); i >= 0; i = v.choose(now, n, &done) {
		done.add(i)
		v.seats[i].Report(1)
	}
	for _, s := range r.Layout.Shards {
		if l := co.LaneTo(s.Site()); l != nil {
			l.Room(reply)
		}
		unanswered(s)
	}
	var d Decision
	v.KnownDenial(max(n, 1), now, &d)
	v.ShutOut(now)
	v.Pause(now)
	v.dueElsewhere(n, &attempt{now: now})
	r.Spare()
	_ = co.Absence(r)
	if len(v.seats) > 1 {
		rotated(v.Routes, now, 1)
	}
	co.complete(&d, r, 0, now)
	co.OwnPart(r.Limit)
	r.Limit.Soonest(max(n, 1))
	co.Renew()
}
