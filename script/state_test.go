package script

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/columns"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// onBoth runs a test on miniredis and, where there is one, on a real server.
func onBoth(t *testing.T, test func(t *testing.T, client rueidis.Client)) {
	t.Run("miniredis", func(t *testing.T) { test(t, miniClient(t, miniredis.RunT(t))) })
	t.Run("redis", func(t *testing.T) { test(t, redistest.Standalone(t).Client(t)) })
}

// content reads whatever a key holds, in a form that can be compared.
func content(t *testing.T, client rueidis.Client, key string) any {
	t.Helper()
	kind, err := command(t, client, "TYPE", key).ToString()
	if err != nil {
		t.Fatal(err)
	}
	var value any
	switch kind {
	case "string":
		value, err = command(t, client, "GET", key).ToString()
	case "hash":
		value, err = command(t, client, "HGETALL", key).AsStrMap()
	case "list":
		value, err = command(t, client, "LRANGE", key, "0", "-1").AsStrSlice()
	case "zset":
		value, err = command(t, client, "ZRANGE", key, "0", "-1", "WITHSCORES").ToAny()
	}
	if err != nil {
		t.Fatal(err)
	}
	return []any{kind, value}
}

func TestForeignState(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		ctx, endpoint, p := context.Background(), NewEndpoint(client), proposal(t, 1, 10, time.Hour)
		ref := ShardKeys(redistest.Prefix(t), "t", "limit")
		good := (&SlidingLog{epoch: 1, target: 10, share: 10, window: 1_000_000, opened: 5, newest: 5,
			total: 10}).head()
		with := func(from int, what string) string { return good[:from] + what + good[from+len(what):] }
		operations := map[string]func() error{
			"take": func() error { _, err := endpoint.Take(ctx, ref, ones(p, 1)); return err },
			"look": func() error { _, err := endpoint.Take(ctx, ref, &TakeRequest{Proposal: p}); return err },
			"refund": func() error {
				_, err := endpoint.Settle(ctx, ref,
					SettleRequest{Back: 1, At: 1})
				return err
			},
			"peek":  func() error { _, err := endpoint.Peek(ctx, ref); return err },
			"clear": func() error { _, err := endpoint.Clear(ctx, ref); return err },
			"drop":  func() error { return endpoint.Drop(ctx, ref) },
		}
		for name, c := range map[string]struct {
			key   string
			words []string
			only  string // operations that look at it
		}{
			"a list":        {ref.head, []string{"RPUSH", ref.head, "a"}, "take look refund peek clear drop"},
			"a hash":        {ref.head, []string{"HSET", ref.head, "a", "b"}, "take look refund peek clear drop"},
			"other text":    {ref.head, []string{"SET", ref.head, "hello"}, "take look refund peek clear drop"},
			"no text":       {ref.head, []string{"SET", ref.head, ""}, "take look refund peek clear drop"},
			"too long":      {ref.head, []string{"SET", ref.head, good + " "}, "take look refund peek clear drop"},
			"another magic": {ref.head, []string{"SET", ref.head, with(0, "SLG1")}, "take look refund peek clear drop"},
			"no number":     {ref.head, []string{"SET", ref.head, with(30, "x")}, "take look refund peek clear"},
			"two numbers":   {ref.head, []string{"SET", ref.head, with(58, " ")}, "look refund peek clear"},
			"not a number":  {ref.head, []string{"SET", ref.head, with(214, "nan")}, "take look refund peek clear"},
			"infinite":      {ref.head, []string{"SET", ref.head, with(199, "inf")}, "take look refund peek clear"},
			"no beginning":  {ref.head, []string{"SET", ref.head, with(50, "x")}, "look refund peek clear"},
			"opened later":  {ref.head, []string{"SET", ref.head, with(170, "9")}, "look refund peek clear"},
			"epoch 0":       {ref.head, []string{"SET", ref.head, with(19, "0")}, "take look refund peek clear"},
			"booked others": {ref.head, []string{"SET", ref.head, good + strings.Repeat("x", columns.Pending.Bytes())},
				"take look refund peek clear"},
			"booked nothing": {ref.head, []string{"SET", ref.head, good + columns.Pending.Sprint(1, 1, 0, 0)},
				"take look refund peek clear"},
			"log a string":  {ref.log, []string{"SET", ref.log, "x"}, "take look drop"},
			"other members": {ref.log, []string{"ZADD", ref.log, "1", "somebody"}, "take look drop"},
		} {
			t.Run(name, func(t *testing.T) {
				if name == "two numbers" {
					c.words[2] = good[:55] + "1 0" + good[58:]
				}
				for operation, call := range operations {
					command(t, client, "DEL", ref.head, ref.log)
					command(t, client, c.words...)
					before := content(t, client, c.key)
					err := call()
					if operation == "drop" && !strings.Contains(c.only, operation) {
						continue // damaged, but ours: Drop is the way to get rid of it
					}
					if strings.Contains(c.only, operation) {
						var state *StateError
						if !errors.Is(err, ErrForeignState) || !errors.As(err, &state) || state.Key != c.key {
							t.Errorf("%s: %v", operation, err)
						}
					}
					if after := content(t, client, c.key); !reflect.DeepEqual(before, after) {
						t.Errorf("%s changed %v to %v", operation, before, after)
					}
				}
			})
		}
	})
}

// TestForeignLog: a log that is not ours beside a head that is.
func TestForeignLog(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		ctx, endpoint, p := context.Background(), NewEndpoint(client), proposal(t, 1, 10, time.Hour)
		ref := ShardKeys(redistest.Prefix(t), "t", "limit")
		for range 3 {
			if _, err := endpoint.Take(ctx, ref, ones(p, 1)); err != nil {
				t.Fatal(err)
			}
		}
		command(t, client, "SET", ref.log, "mine")
		for name, call := range map[string]func() error{
			"take":  func() error { _, err := endpoint.Take(ctx, ref, ones(p, 1)); return err },
			"peek":  func() error { _, err := endpoint.Peek(ctx, ref); return err },
			"clear": func() error { _, err := endpoint.Clear(ctx, ref); return err },
			"drop":  func() error { return endpoint.Drop(ctx, ref) },
		} {
			var state *StateError
			if err := call(); !errors.As(err, &state) || state.Key != ref.log {
				t.Errorf("%s: %v", name, err)
			}
		}
		if text, err := command(t, client, "GET", ref.log).ToString(); err != nil || text != "mine" {
			t.Error(text, err)
		}
	})
}

// clock is a miniredis whose time, and with it every time to live, stands still unless moved.
type clock struct {
	*miniredis.Miniredis
	now time.Time
}

func newClock(t *testing.T) *clock {
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	c := &clock{Miniredis: m, now: time.UnixMicro(1_700_000_000_000_000)}
	c.forward(0)
	return c
}

func (c *clock) forward(d time.Duration) {
	c.now = c.now.Add(d)
	c.SetTime(c.now)
}

func TestTimeToLive(t *testing.T) {
	c := newClock(t)
	ctx, endpoint, ref := context.Background(), NewEndpoint(miniClient(t, c.Miniredis)), ShardKeys("", "t", "limit")
	propose := func(epoch int64, window time.Duration) *Proposal {
		p, err := NewProposal(epoch, 100, 100, window, 10*time.Second, false)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	expect := func(head, log time.Duration) {
		t.Helper()
		if h, l := c.TTL(ref.head), c.TTL(ref.log); h != head || l != log {
			t.Fatalf("head lives %v, log %v; want %v, %v", h, l, head, log)
		}
	}
	take := func(p *Proposal, permits int64) TakeReply {
		t.Helper()
		r := &TakeRequest{Proposal: p}
		if permits > 0 {
			r = ones(p, permits)
		}
		reply, err := endpoint.Take(ctx, ref, r)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	p := propose(1, time.Second)
	take(p, 0)
	expect(12*time.Second, 0)
	c.forward(100 * time.Millisecond)
	take(p, 0)
	expect(11900*time.Millisecond, 0)
	take(p, 40)
	expect(12*time.Second, 0)
	c.forward(100 * time.Millisecond)
	second := take(p, 60)
	expect(12*time.Second, 12*time.Second)
	c.forward(100 * time.Millisecond)
	take(p, 1) // denied
	if _, err := endpoint.Settle(ctx, ref, SettleRequest{Back: 60, At: second.At}); err != nil {
		t.Fatal(err)
	}
	if _, err := endpoint.Settle(ctx, ref, SettleRequest{Back: 1, At: second.At - 100_000}); err != nil {
		t.Fatal(err)
	}
	if _, err := endpoint.Peek(ctx, ref); err != nil {
		t.Fatal(err)
	}
	expect(11900*time.Millisecond, 11900*time.Millisecond)
	take(propose(2, 30*time.Second), 0) // a longer window
	expect(70*time.Second, 70*time.Second)
	c.forward(time.Second)
	if _, err := endpoint.Clear(ctx, ref); err != nil {
		t.Fatal(err)
	}
	expect(69*time.Second, 0)
	c.forward(69*time.Second + time.Millisecond)
	if keys := c.Keys(); len(keys) != 0 {
		t.Fatalf("%q live for ever", keys)
	}
}

func TestNothingIsCreated(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		ctx, endpoint, ref := context.Background(), NewEndpoint(client), ShardKeys("", "t", "limit")
		look, err := NewProposal(0, 0, 0, 0, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		if reply, err := endpoint.Take(ctx, ref, ones(look, 1)); err != nil || reply.Status != Absent ||
			reply.Granted != 0 {
			t.Errorf("%+v %v", reply, err)
		}
		if reply, err := endpoint.Peek(ctx, ref); err != nil || !reflect.DeepEqual(reply, PeekReply{}) {
			t.Errorf("%+v %v", reply, err)
		}
		if reply, err := endpoint.Settle(ctx, ref, SettleRequest{Back: 1, At: 1}); err != nil ||
			reply.Status != Absent || reply.Back != 0 {
			t.Errorf("%+v %v", reply, err)
		}
		if reply, err := endpoint.Clear(ctx, ref); err != nil || reply != (ClearReply{}) {
			t.Errorf("%+v %v", reply, err)
		}
		if err := endpoint.Drop(ctx, ref); err != nil {
			t.Error(err)
		}
		if _, err := endpoint.ReadRecord(ctx, RecordKeys("", "t", "limit"), ReadRecordRequest{}); err != nil {
			t.Error(err)
		}
		if n, err := command(t, client, "DBSIZE").AsInt64(); err != nil || n != 0 {
			t.Errorf("%d keys: %v", n, err)
		}
	})
}

func TestDrop(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		ctx, endpoint, ref := context.Background(), NewEndpoint(client), ShardKeys("", "t", "limit")
		for range 3 {
			if _, err := endpoint.Take(ctx, ref, ones(proposal(t, 1, 10, time.Hour), 1)); err != nil {
				t.Fatal(err)
			}
		}
		if err := endpoint.Drop(ctx, ref); err != nil {
			t.Error(err)
		}
		if n, err := command(t, client, "DBSIZE").AsInt64(); err != nil || n != 0 {
			t.Errorf("%d keys: %v", n, err)
		}
	})
}

// TestMemoryIsFlat: a shard under full load takes at most 64 KiB, whatever its share.
func TestMemoryIsFlat(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	for share := int64(100); share <= 10_000_000; share *= 10 {
		c := clocked{client: client, uptime: 1_000_000, ref: ShardKeys("", "t", strconv.FormatInt(share, 10))}
		p, err := NewProposal(1, share, share, time.Second, time.Hour, false)
		if err != nil {
			t.Fatal(err)
		}
		const perWindow = 500
		for i := range int64(3 * perWindow) {
			if _, err := c.take(1_700_000_000_000_000+i*1_000_000/perWindow,
				ones(p, max(share/perWindow, 1))); err != nil {
				t.Fatal(err)
			}
		}
		bytes := int64(0)
		for _, key := range []string{c.ref.head, c.ref.log} {
			n, err := command(t, client, "MEMORY", "USAGE", key, "SAMPLES", "0").AsInt64()
			if err != nil {
				t.Fatal(err)
			}
			bytes += n
		}
		_, log, _ := c.stored()
		t.Logf("share %d: %d entries, %d bytes", share, len(log), bytes)
		if bytes > 64<<10 || len(log) > 163 {
			t.Errorf("share %d: %d entries, %d bytes", share, len(log), bytes)
		}
	}
}

// TestServerTime: the scripts as they are sent read the server's own TIME.
func TestServerTime(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	serverTime := func() int64 {
		parts, err := command(t, client, "TIME").AsIntSlice()
		if err != nil {
			t.Fatal(err)
		}
		return parts[0]*1_000_000 + parts[1]
	}
	endpoint, ref := NewEndpoint(client), ShardKeys("", "t", "limit")
	before := serverTime()
	reply, err := endpoint.Take(context.Background(), ref, ones(proposal(t, 1, 1, time.Hour), 1))
	if after := serverTime(); err != nil || reply.At < before || reply.At > after {
		t.Errorf("granted at %d, asked between %d and %d: %v", reply.At, before, after, err)
	}
	record, _, err := endpoint.WriteRecord(context.Background(), RecordKeys("", "t", "limit"),
		WriteRecordRequest{Epoch: 1, Keep: time.Hour})
	if after := serverTime(); err != nil || record.Now < before || record.Now > after {
		t.Errorf("written at %d, asked between %d and %d: %v", record.Now, before, after, err)
	}
}
