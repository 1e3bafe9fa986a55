package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// intruders are what is not ours under our keys, by the commands that put it there: a text, a key
// of another type, a damaged value. KEY is the key of the shard.
var intruders = map[string][][]string{
	"a text":         {{"SET", "KEY", "somebody else's"}},
	"a hash":         {{"DEL", "KEY"}, {"HSET", "KEY", "owner", "somebody else"}},
	"a damaged head": {{"SETRANGE", "KEY", "30", "####"}},
}

// What is not ours is told by each call that meets it, and is not changed. Other shards serve.
func TestForeignStateIsReportedAndLeftAlone(t *testing.T) {
	t.Parallel()
	for name, commands := range intruders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fl, posts := limittest.Proxied(t, 2)
			l := fl.Limiter(t, shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: 2})
			for range 10 { // so much that there is a log
				limittest.MustGet(t, l, 8)
			}
			st, bad := limittest.Peek(t, l), posts[0]
			if limittest.ShardOn(t, st, bad.Name).Used < limittest.ShardOn(t, st, posts[1].Name).Used {
				bad = posts[1]
			}
			tag := limittest.ShardOn(t, st, bad.Name).Tag
			key := fl.Prefix + "{" + tag + "}l:n:l"
			for _, command := range commands {
				command = slices.Clone(command)
				command[1] = key
				bad.Do(t, command...)
			}
			before := dump(t, bad, key)

			for range 200 {
				limittest.Served(t, l, 1)
			}
			st, err := l.Peek(t.Context())
			limittest.Must(t, err)
			limittest.ErrorIs(t, limittest.ShardOn(t, st, bad.Name).Err, script.ErrForeignState, "Peek")
			var where *shardlimit.ShardError
			if err := l.Reset(t.Context()); !errors.As(err, &where) || where.Node != bad.Name || where.Shard != tag ||
				!errors.Is(err, script.ErrForeignState) {
				t.Errorf("Reset: %v", err)
			}
			if dump(t, bad, key) != before {
				t.Error("what was there was changed")
			}
			if name == "a damaged head" {
				return // it is ours, so that Delete may clean it up
			}
			if err := l.Delete(t.Context()); !errors.As(err, &where) || where.Node != bad.Name {
				t.Errorf("Delete: %v", err)
			}
			if dump(t, bad, key) != before {
				t.Error("Delete changed what was there")
			}
		})
	}
}

// dump tells what keys of a node hold.
func dump(tb testing.TB, p *limittest.ProxiedNode, keys ...string) (all string) {
	tb.Helper()
	for _, key := range keys {
		all += p.Do(tb, "EVAL", `return redis.sha1hex(redis.call('DUMP', KEYS[1]))`, "1", key)
	}
	return all
}

// A record that is not ours, or of a later version, is told by whoever opens its limit, and is not
// changed. Other limits are served.
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
			before := dump(t, posts[0], keys...)
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
			if dump(t, posts[0], keys...) != before {
				t.Error("the record was changed")
			}
			limittest.MustGet(t, limittest.Limiter(t, c, "another", shardlimit.PerHour(10)), 1)
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
		limittest.RunInBubble(t, name, 1, func(t *testing.T, f limittest.Fleet) {
			redis := f.Bubble[0].Redis
			l := f.Limiter(t, shardlimit.PerMinute(5))
			limittest.MustGet(t, l, 1)
			rewriteLayouts(t, redis, func(string) string { return string(record) })
			there := func() bool { // until the process that knows the limit has written it again
				return slices.ContainsFunc(redis.Keys(), func(key string) bool {
					stored := fmt.Sprint(redis.Do([]string{"GET", key}))
					return isLayout(key) && strings.HasSuffix(stored, "v"+string(record))
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
			limittest.Must(t, l.Delete(t.Context()))
		})
	}
}

// Whatever bytes stand in a record, a process either refuses them with a typed error or works with
// the layout: it chooses shards, and reads what they say, without a panic.
func TestAnyBytesInARecordAreRefusedOrUsed(t *testing.T) {
	rng, used := rand.New(rand.NewPCG(1, 2)), 0
	for i := range extent.Some(800) {
		limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
			limit := shardlimit.Limit{Permits: 100, Per: time.Minute, Shards: 3,
				Algorithm: limittest.Algorithms[i%len(limittest.Algorithms)]}
			l := f.Limiter(t, limit)
			if i%2 == 0 { // capacity moves for a minute
				limittest.DrainSlowly(t, l)
				limit.Permits, limit.Shards = 50, 1
				limittest.Must(t, l.SetLimit(t.Context(), limit))
			}
			rewriteLayouts(t, f.Bubble[0].Redis, func(layout string) string {
				altered := []byte(layout)
				for range rng.IntN(3) {
					const digits = "0123456789-\"x"
					altered[rng.IntN(len(altered))] = digits[rng.IntN(len(digits))]
				}
				return string(altered)
			})
			found, err := f.Client(t).Limiter(t.Context(), "l", limit)
			if err != nil {
				if !errors.As(err, new(*shardlimit.ShardError)) {
					t.Errorf("Limiter: %v", err)
				}
				return
			}
			used++
			calls := limittest.Calls(found, 1+rng.Int64N(200), shardlimit.Decision{})
			for _, name := range []string{"Allow", "AllowN", "AllowUpTo", "Reserve", "Set.Allow", "Peek"} {
				if err := calls[name](t.Context()); err != nil && !known(err) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	if used == 0 {
		t.Error("no layout was used")
	}
}
