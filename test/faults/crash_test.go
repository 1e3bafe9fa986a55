package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/shard"
)

// A process that joins a limit whose buckets are being replaced looks at shards of which it knows
// only that they leave, and which nobody has told yet.
func TestPeekAtBucketsThatLeaveAndWereNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := limittest.Bubbled(t, 2)
		limit := shardlimit.Limit{Permits: 40, Per: time.Hour, Shards: 2, Algorithm: shardlimit.TokenBucket}
		if d, err := limittest.Limiter(t, f.Client(t), "l", limit).AllowN(t.Context(), 30); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		var dying *shardlimit.Client
		var ends sync.WaitGroup
		d := &limittest.Demise{End: func() { ends.Go(func() { dying.Close() }) }}
		broken := limittest.Fleet{Prefix: f.Prefix}
		for _, n := range f.Nodes {
			given, err := rueidis.NewClient(n.Redis)
			if err != nil {
				t.Fatal(err)
			}
			defer given.Close()
			broken.Nodes = append(broken.Nodes,
				shardlimit.Node{Name: n.Name, Client: &limittest.Mortal{Client: given, Demise: d}})
		}
		defer ends.Wait() // a connection that is made while its client is closed stays
		dying = broken.Client(t)
		setter := limittest.Limiter(t, dying, "l", limit)
		d.Armed.Store(true)
		limit.Algorithm = shardlimit.SlidingLog
		if err := setter.SetLimit(t.Context(), limit); err == nil || !d.Dead.Load() {
			t.Fatalf("SetLimit of a process that was to die: %v", err)
		}
		st, err := limittest.Limiter(t, f.Client(t), "l", limit).Peek(t.Context())
		if err != nil || len(st.Shards) != 4 {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

// layoutOf is a stored layout in the making, which no version of this package would store.
func layoutOf(shards int, change func(map[string]any)) []byte {
	list := make([]map[string]any, shards)
	for i := range list {
		list[i] = map[string]any{"slot": i, "node": "n0", "share": 1}
	}
	l := map[string]any{
		"epoch": 9, "settled": true, "permits": shards, "window_ns": int64(time.Minute),
		"algorithm": "sliding_log", "revision": 0, "shards": list,
	}
	change(l)
	text, _ := json.Marshal(ordered(l))
	return text
}

// ordered is a layout with its fields in the order in which they are stored.
func ordered(l map[string]any) any {
	type stored struct {
		Epoch     any `json:"epoch"`
		Settled   any `json:"settled"`
		Permits   any `json:"permits"`
		Window    any `json:"window_ns"`
		Algorithm any `json:"algorithm"`
		Burst     any `json:"burst,omitempty"`
		Revision  any `json:"revision"`
		Lease     any `json:"lease_ns,omitempty"`
		Scope     any `json:"scope,omitempty"`
		Shards    []struct {
			Slot  any `json:"slot"`
			Node  any `json:"node"`
			Share any `json:"share"`
			Burst any `json:"burst,omitempty"`
		} `json:"shards"`
	}
	text, _ := json.Marshal(map[string]any{
		"epoch": l["epoch"], "settled": l["settled"], "permits": l["permits"], "window_ns": l["window_ns"],
		"algorithm": l["algorithm"],
		"burst":     l["burst"], "revision": l["revision"], "lease_ns": l["lease_ns"], "scope": l["scope"],
		"shards": l["shards"],
	})
	var s stored
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&s)
	return s
}

// A record that this version cannot hold is told as such by the call that reads it. No process
// crashes.
func TestARecordThatCannotBeHeldIsReported(t *testing.T) {
	for name, record := range map[string][]byte{
		"300 shards": layoutOf(300, func(map[string]any) {}),
		"257 shards": layoutOf(257, func(map[string]any) {}),
		"a window between microseconds": layoutOf(2,
			func(l map[string]any) { l["window_ns"] = int64(time.Minute) + 1 }),
		"a lease on a counter": layoutOf(2, func(l map[string]any) {
			l["algorithm"], l["lease_ns"] = "sliding_counter", int64(time.Second)
		}),
		"a bucket that is never full": layoutOf(1, func(l map[string]any) {
			l["algorithm"], l["burst"], l["window_ns"] = "token_bucket", shard.MaxPermits, int64(shardlimit.MaxWindow)
			l["shards"].([]map[string]any)[0]["burst"] = shard.MaxPermits
		}),
		"an unknown algorithm": layoutOf(2, func(l map[string]any) { l["algorithm"] = "of_the_future" }),
		"an unknown scope":     layoutOf(2, func(l map[string]any) { l["scope"] = "of_the_future" }),
		"a long name": layoutOf(1,
			func(l map[string]any) { l["shards"].([]map[string]any)[0]["node"] = fmt.Sprintf("%2000d", 1) }),
	} {
		t.Run(name, func(t *testing.T) {
			redis := miniredis.RunT(t)
			f := limittest.Fleet{Prefix: "c:", Nodes: []shardlimit.Node{{Name: "n0", Redis: rueidis.ClientOption{
				InitAddress: []string{redis.Addr()}, ForceSingleClient: true, DisableCache: true,
			}}}}
			l := limittest.Limiter(t, f.Client(t), "l", shardlimit.PerMinute(5))
			if _, err := l.Allow(t.Context()); err != nil {
				t.Fatal(err)
			}
			planted := 0
			for _, key := range redis.Keys() {
				if place, _ := redis.Get(key); isLayout(key) && place != "" {
					_ = redis.Set(key, withLayout(t, place, string(record)))
					planted++
				}
			}
			if planted == 0 {
				t.Fatal("no record was found")
			}
			there := func() bool { // until the process that knows the limit has written it again
				return slices.ContainsFunc(redis.Keys(), func(key string) bool {
					place, _ := redis.Get(key)
					return isLayout(key) && layoutAt(t, place) == string(record)
				})
			}
			c := f.Client(t)
			var where *shardlimit.ShardError
			if l, err := c.Limiter(t.Context(), "l", shardlimit.PerMinute(5)); there() &&
				(l != nil || !errors.As(err, &where)) {
				t.Errorf("Limiter: %v", err)
			}
			if _, err := c.Open(t.Context(), "l"); err == nil && there() {
				t.Error("Open found a limit")
			}
			_ = l.SetLimit(t.Context(), shardlimit.PerMinute(6)) // has it read again by a process that knows the limit
			for range 20 {
				if d, err := l.Allow(t.Context()); err != nil && !errors.As(err, &where) {
					t.Errorf("%+v, %v", d, err)
				}
			}
			if err := l.Delete(t.Context()); err != nil {
				t.Errorf("Delete: %v", err)
			}
		})
	}
}
