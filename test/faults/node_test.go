package faults

import (
	"context"
	"errors"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestABrokenNodeCausesNoError(t *testing.T) {
	t.Parallel()
	for _, f := range limittest.NodeFailures {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			oneOfFourBreaks(t, f)
		})
	}
}

func oneOfFourBreaks(t *testing.T, f limittest.NodeFailure) {
	const callTimeout = 6 * time.Second // a script call has half of it: what is left is more than a machine stalls
	fl, posts := limittest.Proxied(t, 4)
	l := fl.Limiter(t, shardlimit.Limit{Permits: 4e6, Per: time.Minute, Shards: 4},
		limittest.PatientFor(callTimeout), limittest.AfterLoss(shardlimit.Resume))
	limittest.Settled(t, l)
	limittest.AwaitThat(t, "all four are connected", func() bool {
		d, err := l.AllowN(t.Context(), 4e6)
		return err == nil && d.Allowed && l.Settle(t.Context(), d, 0) == nil
	})
	for range 100 { // one at a time, they go to the shard that this process likes best
		limittest.MustGet(t, l, 1)
	}
	broken := posts[0]
	for _, p := range posts {
		if p.Takes.Load() > broken.Takes.Load() {
			broken = p
		}
	}
	callers := busy(t, 8, 5*time.Millisecond, func(int, int64) (shardlimit.Decision, error) {
		d, err := l.Allow(context.Background())
		if d.Degraded {
			t.Errorf("the outage policy answers: %+v", d)
		}
		return d, err
	})
	f.Cause(broken)
	limittest.AwaitThat(t, "the breaker is open", func() bool {
		st, err := l.Peek(limittest.Shortly(t, callTimeout))
		return err == nil && limittest.ShardOn(t, st, broken.Name).Err != nil
	})
	before, sent := callers.calls.Load(), broken.Takes.Load()
	limittest.AwaitThat(t, "the others serve", func() bool { return callers.calls.Load() > before+400 || t.Failed() })
	if n := broken.Takes.Load() - sent; n > 40 {
		t.Errorf("%d script calls were sent to the broken node during 400 decisions", n)
	}
	f.Cure(broken)
	sent = broken.Takes.Load()
	limittest.AwaitThat(t, "calls go to it again", func() bool { return broken.Takes.Load() > sent+50 || t.Failed() })
	callers.stop()
	limittest.Must(t, limittest.Err(l.AllowUpTo(t.Context(), 4e6)))
	if s := limittest.ShardOn(t, limittest.Peek(t, l), broken.Name); s.Used != s.Target {
		t.Errorf("after all permits were taken, its shard has %d of %d left", s.Target-s.Used, s.Target)
	}
}

// While all nodes stall each call but Settle, which goes on, returns by its context. Only Limiter,
// Family and Slots return a handle then.
func TestCallsReturnByTheirContextInAStall(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
		f, nodes := f.Distant(t, time.Millisecond)
		c := f.Client(t, limittest.PatientFor(30*time.Second))
		l := limittest.Limiter(t, c, "l", shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 2})
		limittest.Must(t, l.Settle(t.Context(), limittest.MustGet(t, l, 100), 0))
		for _, n := range nodes {
			n.Stalled.Store(true)
		}
		calls, opens := limittest.Calls(l, 80, shardlimit.Decision{}), limittest.Opens(c, "another")
		delete(calls, "Settle")
		maps.Copy(calls, opens)
		for name, call := range calls {
			ctx, began := limittest.Shortly(t, 50*time.Millisecond), time.Now()
			if err := call(ctx); opens[name] == nil && err == nil || time.Since(began) > 60*time.Millisecond {
				t.Errorf("%s returned after %s: %v", name, time.Since(began), err)
			}
		}
		for _, n := range nodes {
			n.Stalled.Store(false)
		}
	})
}

func TestACallerThatLeavesHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 1)
	l := fl.Limiter(t, shardlimit.PerMinute(100), limittest.PatientFor(20*time.Second))
	limittest.MustGet(t, l, 1)
	// The record is read in the background then. A stall in the middle of that would break the
	// connection before the call is sent.
	limittest.AwaitThat(t, "the record was read", func() bool {
		before := posts[0].Reads.Load()
		time.Sleep(100 * time.Millisecond)
		return before > 0 && posts[0].Reads.Load() == before
	})
	posts[0].Proxy.Stall(true)
	sent := posts[0].Takes.Load()
	reason := errors.New("the user went home")
	ctx, leave := context.WithCancelCause(t.Context())
	left := make(chan error, 1)
	go func() { _, err := l.Allow(ctx); left <- err }()
	limittest.AwaitThat(t, "the call is sent", func() bool { return posts[0].Takes.Load() > sent })
	staying := make(chan *limittest.Answers, 1)
	go func() {
		staying <- limittest.Together(3, func(int) (shardlimit.Decision, error) { return l.Allow(t.Context()) })
	}()
	leave(reason)
	limittest.ErrorIs(t, <-left, reason, "the caller that left")
	posts[0].Proxy.Stall(false)
	if s := <-staying; s.Allowed != 3 {
		t.Errorf("of 3 callers behind it %d were served: %v", s.Allowed, s.Err)
	}
	limittest.AwaitThat(t, "what was sent for the caller that left is given back",
		func() bool { return limittest.Peek(t, l).Used == 4 })
}

// A reply is lost: its permits are spent on that shard, exactly once, and the
// caller is served by another.
func TestALostReplyIsSpentOnce(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 2)
	l := fl.Limiter(t, shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: 2}, limittest.PatientFor(5*time.Second))
	limittest.MustGet(t, l, 7)
	lossy, other := posts[0], posts[1]
	if limittest.ShardOn(t, limittest.Peek(t, l), lossy.Name).Used == 0 {
		lossy, other = other, lossy
	}
	lossy.Proxy.DropReplies(true)
	calls := int64(0)
	for sent := lossy.Takes.Load(); lossy.Takes.Load() == sent; calls++ { // until it is that one's turn
		limittest.Served(t, l, 5)
		if calls == 18 {
			t.Fatal("no call went to the node whose replies are lost")
		}
		time.Sleep(5 * time.Millisecond) // turns change with time
	}
	lossy.Proxy.DropReplies(false)
	limittest.AwaitThat(t, "both nodes answer",
		func() bool { st, err := l.Peek(t.Context()); return err == nil && st.Used >= 12+5*calls })
	st := limittest.Peek(t, l)
	if used := limittest.ShardOn(t, st, lossy.Name).Used; used != 7+5 {
		t.Errorf("%d permits are spent where the reply was lost, want 7 and 5", used)
	}
	if used := limittest.ShardOn(t, st, other.Name).Used; used != 5*calls {
		t.Errorf("%d permits are spent at the other node, want %d", used, 5*calls)
	}
}

// Servers forget their scripts again and again: no call fails, and none is spent twice.
func TestScriptFlushCausesNoErrorOrDoubleSpend(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 2)
	limiters := fl.Group(t, 2, "l", shardlimit.Limit{Permits: 1e6, Per: time.Hour, Shards: 4},
		limittest.PatientFor(10*time.Second))
	callers := busy(t, 16, 0, func(who int, i int64) (shardlimit.Decision, error) {
		return limiters[who%2].AllowN(context.Background(), 1+i%3)
	})
	for range 40 {
		before := callers.granted.Load()
		for _, p := range posts {
			p.Do(t, "SCRIPT", "FLUSH")
		}
		limittest.AwaitThat(t, "calls go on", func() bool { return callers.granted.Load() > before+10 || t.Failed() })
	}
	callers.stop()
	limittest.Uses(t, limiters[0], callers.granted.Load())
}

// What a server refuses to do it has not done, be it full, busy with a foreign script, or unable to
// write its file: the caller goes on to another shard, nothing is lost, and the shard returns when
// the server writes again.
func TestANodeThatRefusesToWriteIsSkipped(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string][2][]string{
		"OOM":      {{"CONFIG", "SET", "maxmemory", "1"}, {"CONFIG", "SET", "maxmemory", "0"}},
		"READONLY": {{"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"}},
		"NOREPLICAS": {{"CONFIG", "SET", "min-replicas-to-write", "1"},
			{"CONFIG", "SET", "min-replicas-to-write", "0"}},
		"MISCONF": {{"BGSAVE"}, {"CONFIG", "SET", "stop-writes-on-bgsave-error", "no"}},
		"BUSY":    {{"EVAL", "while true do end", "0"}, {"SCRIPT", "KILL"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fl, posts := limittest.Proxied(t, 2)
			l := fl.Limiter(t, shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: 2})
			limittest.MustGet(t, l, 1)
			bad := posts[0]
			if limittest.ShardOn(t, limittest.Peek(t, l), bad.Name).Used == 0 {
				bad = posts[1]
			}
			bad.Do(t, "CONFIG", "SET", "lua-time-limit", "20")
			if name == "MISCONF" {
				_, folder, _ := strings.Cut(bad.Do(t, "CONFIG", "GET", "dir"), " ")
				limittest.Must(t, os.RemoveAll(strings.TrimSuffix(folder, "]")))
				bad.Do(t, "CONFIG", "SET", "save", "3600 1")
			}
			said := func(command ...string) error {
				c := bad.Server.Client(t)
				return c.Do(context.Background(), c.B().Arbitrary(command...).Build()).Error()
			}
			var busy sync.WaitGroup
			busy.Go(func() { _ = said(refusal[0]...) })
			limittest.AwaitThat(t, "it refuses", func() bool {
				err := said("SET", "x", "1")
				return err != nil && strings.Contains(err.Error(), name)
			})
			sent := bad.Takes.Load()
			for range 100 {
				limittest.Served(t, l, 1)
			}
			if n := bad.Takes.Load() - sent; n > 20 {
				t.Errorf("%d calls went to the node during 100 decisions", n)
			}
			if name != "BUSY" { // which answers no look
				limittest.Uses(t, l, 101)
			}
			bad.Do(t, refusal[1]...)
			busy.Wait()
			limittest.AwaitThat(t, "the whole limit can be had", func() bool {
				d, err := l.AllowN(t.Context(), 899)
				limittest.Must(t, err)
				return d.Allowed
			})
		})
	}
}

func TestANodeWithoutRoomForConnectionsIsSkipped(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 3)
	limit := shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: 3}
	first := fl.Limiter(t, limit)
	d := limittest.MustGet(t, first, 1000) // so that every shard has its share
	limittest.Must(t, first.Settle(t.Context(), d, 0))
	for _, full := range posts {
		full.Do(t, "CONFIG", "SET", "maxclients", "1")
		l := fl.Limiter(t, limit)
		for range 20 {
			limittest.Served(t, l, 1)
		}
		full.Do(t, "CONFIG", "SET", "maxclients", "1000")
	}
}

// While one of several nodes that are not nearby stalls, calls find another one in time.
func TestAStalledNodeAmongDistantOnes(t *testing.T) {
	for range 5 { // chance decides which calls meet
		limittest.InBubble(t, 4, func(t *testing.T, f limittest.Fleet) {
			far, _ := f.Distant(t, 24*time.Millisecond)
			l := far.Limiter(t, shardlimit.Limit{Permits: 1e9, Per: time.Minute, Shards: 4})
			for range 40 {
				limittest.MustGet(t, l, 1)
			}
			ends := time.Now().Add(2 * time.Second)
			f.Bubble[0].Paused.Store(ends.UnixNano())
			var calls, failed atomic.Int64
			var all sync.WaitGroup
			for range 40 {
				all.Go(func() {
					for ; time.Now().Before(ends); calls.Add(1) {
						if _, err := l.Allow(t.Context()); err != nil {
							failed.Add(1)
						}
					}
				})
			}
			all.Wait()
			if n := failed.Load(); n*20 > calls.Load() {
				t.Errorf("%d of %d calls failed", n, calls.Load())
			}
		})
	}
}
