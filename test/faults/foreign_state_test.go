package faults

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// What is not ours under our keys: a key of another type, a text, a damaged value.
var intruders = map[string]func(testing.TB, *limittest.ProxiedNode, limittest.Fleet, string){
	"a text for the head": func(tb testing.TB, p *limittest.ProxiedNode, f limittest.Fleet, tag string) {
		p.Do(tb, "SET", f.Prefix+"{"+tag+"}l:n:l", "somebody else's")
	},
	"a list for the head": func(tb testing.TB, p *limittest.ProxiedNode, f limittest.Fleet, tag string) {
		p.Do(tb, "DEL", f.Prefix+"{"+tag+"}l:n:l")
		p.Do(tb, "RPUSH", f.Prefix+"{"+tag+"}l:n:l", "somebody else's")
	},
	"a damaged head": func(tb testing.TB, p *limittest.ProxiedNode, f limittest.Fleet, tag string) {
		p.Do(tb, "SETRANGE", f.Prefix+"{"+tag+"}l:n:l", "30", "####")
	},
	"a hash for the log": func(tb testing.TB, p *limittest.ProxiedNode, f limittest.Fleet, tag string) {
		p.Do(tb, "DEL", f.Prefix+"{"+tag+"}l:n:l")
		p.Do(tb, "HSET", f.Prefix+"{"+tag+"}l:n:l", "owner", "somebody else")
	},
}

func TestForeignStateIsReportedAndLeftAlone(t *testing.T) {
	t.Parallel()
	for name, intrude := range intruders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fl, posts := limittest.Proxied(t, 2)
			l := fl.Limiter(t, shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: 2})
			for range 10 { // so much that there is a log
				limittest.MustGet(t, l, 8)
			}
			bad := posts[0]
			if st := limittest.Peek(t, l); limittest.ShardOn(t, st, bad.Name).Used < limittest.ShardOn(t, st,
				posts[1].Name).Used {
				bad = posts[1]
			}
			tag := limittest.ShardOn(t, limittest.Peek(t, l), bad.Name).Tag
			intrude(t, bad, fl, tag)
			before := dump(t, bad)

			for range 200 {
				limittest.Served(t, l, 1)
			}
			st, err := l.Peek(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			foreign := limittest.ShardOn(t, st, bad.Name).Err
			if !errors.Is(foreign, script.ErrForeignState) {
				t.Errorf("Peek: %v", foreign)
			}
			var where *shardlimit.ShardError
			if err := l.Reset(t.Context()); !errors.As(err, &where) || where.Node != bad.Name || where.Shard != tag ||
				!errors.Is(err, script.ErrForeignState) {
				t.Errorf("Reset: %v", err)
			}
			if after := dump(t, bad); after != before {
				t.Errorf("what was there was changed:\n%s\n%s", before, after)
			}
			if name == "a damaged head" {
				return // it is ours, so that Delete may clean it up
			}
			if err := l.Delete(t.Context()); !errors.As(err, &where) || where.Node != bad.Name {
				t.Errorf("Delete: %v", err)
			}
			if after := dump(t, bad); after != before {
				t.Errorf("Delete changed what was there:\n%s\n%s", before, after)
			}
		})
	}
}

// dump is every key of a shard on the node, with what it holds.
func dump(tb testing.TB, p *limittest.ProxiedNode) string {
	tb.Helper()
	return p.Do(tb, "EVAL", `
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if string.find(key, '}l:n:l$') then
    all[#all + 1] = key .. '=' .. redis.sha1hex(redis.call('DUMP', key))
  end
end
table.sort(all)
return table.concat(all, '\n')`, "0")
}

func TestAForeignRecordIsReportedAndLeftAlone(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string][]string{
		"a text":                 {"SET", "", "somebody else's"},
		"a hash":                 {"HSET", "", "owner", "somebody else"},
		"a record of the future": {"SET", "", "M9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fl, posts := limittest.Proxied(t, 1)
			fl.Limiter(t, shardlimit.PerHour(10))
			keys := strings.Fields(posts[0].Do(t, "EVAL",
				`return table.concat(redis.call('KEYS', '*:m:*:limit:n:l'), ' ')`, "0"))
			if len(keys) == 0 {
				t.Fatal("no record was found")
			}
			for _, key := range keys {
				posts[0].Do(t, "DEL", key)
				plant[1] = key
				posts[0].Do(t, plant...)
			}
			values := func() (all string) {
				for _, key := range keys {
					all += posts[0].Do(t, "EVAL", `return redis.sha1hex(redis.call('DUMP', KEYS[1]))`, "1", key)
				}
				return all
			}
			before := values()
			sent := posts[0].Takes.Load()
			c := fl.Client(t)
			for range 3 {
				l, err := c.Limiter(t.Context(), "l", shardlimit.PerHour(10))
				var where *shardlimit.ShardError
				if l != nil || !errors.As(err, &where) || where.Limiter != "l" || where.Node != "n0" {
					t.Errorf("%v", err)
				}
			}
			if _, err := c.Open(t.Context(), "l"); err == nil {
				t.Error("Open found a limit")
			}
			if n := posts[0].Takes.Load() - sent; n > 60 {
				t.Errorf("%d script calls for 4 attempts", n)
			}
			if values() != before {
				t.Error("the record was changed")
			}
			if d, err := limittest.Limiter(t, c, "another", shardlimit.PerHour(10)).Allow(t.Context()); err != nil ||
				!d.Allowed {
				t.Errorf("another limit: %+v, %v", d, err)
			}
		})
	}
}

// layoutOf is a stored layout in the making, which no version of this package would store: one of
// so many shards with other texts in the places of some.
func layoutOf(shards int, instead ...string) []byte {
	var list []string
	for i := range shards {
		list = append(list, fmt.Sprintf(`{"slot":%d,"node":"n0","share":1}`, i))
	}
	text := fmt.Sprintf(`{"epoch":9,"settled":true,"permits":%d,"window_ns":60000000000,"algorithm":"sliding_log",`+
		`"revision":0,"shards":[%s]}`, shards, strings.Join(list, ","))
	return []byte(strings.NewReplacer(instead...).Replace(text))
}

// A record that this version cannot hold is told as such by the call that reads it. No process
// crashes.
func TestARecordThatCannotBeHeldIsReported(t *testing.T) {
	for name, record := range map[string][]byte{
		"300 shards":                    layoutOf(300),
		"257 shards":                    layoutOf(257),
		"a window between microseconds": layoutOf(2, "60000000000", "60000000001"),
		"a lease on a counter": layoutOf(2, "sliding_log", "sliding_counter",
			`"revision":0`, `"revision":0,"lease_ns":1000000000`),
		"a bucket that is never full": layoutOf(1, "60000000000", fmt.Sprint(int64(shardlimit.MaxWindow)),
			`"sliding_log"`, fmt.Sprintf(`"token_bucket","burst":%d`, shard.MaxPermits),
			`"share":1`, fmt.Sprintf(`"share":1,"burst":%d`, shard.MaxPermits)),
		"an unknown algorithm": layoutOf(2, "sliding_log", "of_the_future"),
		"an unknown scope":     layoutOf(2, `"revision":0`, `"revision":0,"scope":"of_the_future"`),
		"a long name":          layoutOf(1, `"n0"`, fmt.Sprintf(`"%2000d"`, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			redis := miniredis.RunT(t)
			f := limittest.Fleet{Prefix: "c:", Nodes: []shardlimit.Node{{Name: "n0", Redis: rueidis.ClientOption{
				InitAddress: []string{redis.Addr()}, ForceSingleClient: true, DisableCache: true,
			}}}}
			l := f.Limiter(t, shardlimit.PerMinute(5))
			limittest.MustGet(t, l, 1)
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
