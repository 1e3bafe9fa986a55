package shardlimit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
)

// takenOverWithin is how long after a node was lost the others have all of a limit a second: until
// it is noticed, nobody relies on it, and nothing matters that it granted; and ten times that for
// a busy machine.
const takenOverWithin = 10 * (failoverAfter + 6*time.Second + 4*time.Second)

const failoverAfter = time.Second

// wary has nodes put out that are silent for a second.
func wary(c *shardlimit.Config) { c.NodeTimeout = failoverAfter }

// takesOver has limits declared whose lost nodes are taken over after the usual time.
func takesOver(c *shardlimit.Config) { c.NodeTimeout = shardlimit.DefaultNodeTimeout }

// What a lost node has of a limit is served by the others, whatever it is that it does, and no
// window is ever over. When it is back, whether it remembers or not, it has a part again.
func TestALostNodeIsTakenOver(t *testing.T) {
	t.Parallel()
	for _, f := range append([]failure{
		{"comes back empty", func(p *proxiedNode) { p.server.Kill(); p.proxy.Cut() },
			func(p *proxiedNode) { p.server.Restart() }},
	}, failures[1:]...) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			lostNodeIsTakenOver(t, f)
		})
	}
}

func lostNodeIsTakenOver(t *testing.T, f failure) {
	limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: 4}
	fl, posts := proxied(t, 4)
	var limiters []*shardlimit.Limiter
	for range 3 {
		limiters = append(limiters, limiter(t, fl.client(t, patientFor(250*time.Millisecond), wary), "l", limit))
	}
	settled(t, limiters[0])
	calls := newTraffic(t)
	calls.dying, calls.rest = true, 30*time.Millisecond // it waits: that spares the processor
	calls.start(2, limiters...)
	first := peek(t, limiters[0])
	lost := posts[0].name
	f.cause(posts[0])
	began := time.Now()
	served := func(without string) bool {
		st, _ := limiters[1].Peek(t.Context())
		return st.Settled && st.Epoch > first.Epoch && sumOn(st, without) == limit.Permits
	}
	within(t, takenOverWithin, "the others have all of it", func() bool { return served(lost) }, func() string {
		st, err := limiters[1].Peek(t.Context())
		return stateText(st, err)
	})
	for _, l := range limiters {
		within(t, takenOverWithin, "each process has heard of it",
			func() bool { return sumOn(peek(t, l), lost) == limit.Permits })
	}
	t.Logf("taken over after %v", time.Since(began).Round(time.Millisecond))
	f.cure(posts[0])
	began = time.Now()
	within(t, takenOverWithin, "it has a part again", func() bool {
		st, _ := limiters[2].Peek(t.Context())
		return st.Settled && sumOn(st, lost) < limit.Permits && sumOn(st, "") == limit.Permits
	})
	t.Logf("in again after %v", time.Since(began).Round(time.Millisecond))
	ops, err := calls.stop()
	if err != nil && !errors.Is(err, shardlimit.ErrUnavailable) { // the machine may be busy
		t.Error(err)
	}
	if worst, ok := history.Check(limit.Per, limit.Permits, ops); !ok {
		t.Errorf("over: %v", worst)
	}
}

// sumOn is what the shards that answer have, but for those on a node.
func sumOn(st shardlimit.State, without string) (sum int64) {
	for _, s := range st.Shards {
		if s.Node != without && s.Err == nil {
			sum += s.Share
		}
	}
	return sum
}

// within polls for at most so long; seen, if given, tells what was there instead.
func within(tb testing.TB, most time.Duration, what string, holds func() bool, seen ...func() string) {
	tb.Helper()
	for end := time.Now().Add(most); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			for _, tell := range seen {
				what += ": " + tell()
			}
			tb.Fatalf("after %s still not: %s", most, what)
		}
	}
}

// A limit with one shard, and the keys of a family, are served elsewhere when their node is lost;
// the limit can be changed although the node kept its record, too.
func TestWhatIsWhollyOnALostNodeIsServedElsewhere(t *testing.T) {
	t.Parallel()
	fl, posts := proxied(t, 3)
	c := fl.client(t, patientFor(250*time.Millisecond), wary)
	one := shardlimit.Limit{Permits: 5, Per: time.Second, Shards: 1}
	byNode := map[string]*shardlimit.Limiter{}
	for i := 0; len(byNode) < 3; i++ {
		l := limiter(t, c, fmt.Sprint("l", i), one)
		settled(t, l)
		byNode[peek(t, l).Shards[0].Node] = l
	}
	family := keyed(t, c, "f", one)
	keys := map[string]*shardlimit.Limiter{}
	for i := 0; len(keys) < 3; i++ {
		k := family.Limiter(fmt.Sprint("user ", i))
		if _, err := k.Allow(t.Context()); err != nil {
			t.Fatal(err)
		}
		keys[peek(t, k).Shards[0].Node] = k
	}
	posts[1].server.Kill()
	posts[1].proxy.Cut()
	lost := posts[1].name
	wholly := map[string]*shardlimit.Limiter{"the limit": byNode[lost], "the key": keys[lost]}
	for what, l := range wholly {
		if _, err := l.Allow(t.Context()); !errors.Is(err, shardlimit.ErrUnavailable) {
			t.Errorf("%s: %v while its node is lost", what, err)
		}
	}
	for what, l := range wholly {
		within(t, takenOverWithin, what+" is served", func() bool {
			d, err := l.Allow(t.Context())
			return err == nil && d.Allowed
		})
	}
	for node, l := range byNode {
		if err := l.SetLimit(t.Context(),
			shardlimit.Limit{Permits: 7, Per: time.Second, Shards: 1}); err != nil {
			t.Errorf("the limit of %s cannot be changed: %v", node, err)
		}
	}
	for node, k := range keys {
		if d, err := k.Allow(t.Context()); err != nil {
			t.Errorf("the key of %s: %+v, %v", node, d, err)
		}
	}
	posts[1].server.Restart()
	within(t, takenOverWithin, "keys are on all nodes again", func() bool {
		_, _ = keys[lost].Allow(t.Context())
		return len(homes(t, family)) == 3
	})
}

// A node that some processes cannot reach is given up by all; no window is over meanwhile.
func TestANodeThatSomeCannotReachIsTakenOver(t *testing.T) {
	t.Parallel()
	limit := shardlimit.Limit{Permits: 300, Per: time.Second, Shards: 3}
	fl, _ := independent(t, 3)
	behind, post := fl.behindProxy(t)
	near := limiter(t, fl.client(t, patientFor(250*time.Millisecond), wary), "l", limit)
	settled(t, near)
	far := limiter(t, behind.client(t, patientFor(250*time.Millisecond), wary), "l", limit)
	settled(t, far)
	first := peek(t, near)
	calls := newTraffic(t)
	calls.dying = true // what it granted cannot be given back by who cannot reach it
	calls.start(4, near, far)
	post.proxy.Stall(true)
	for _, l := range []*shardlimit.Limiter{near, far} {
		within(t, takenOverWithin, "it is taken over", func() bool { return peek(t, l).Epoch > first.Epoch })
	}
	within(t, takenOverWithin, "the others have all of it", func() bool {
		st := peek(t, near)
		return st.Settled && sumOn(st, post.name) == limit.Permits
	})
	ops, err := calls.stop()
	if err != nil && !errors.Is(err, shardlimit.ErrUnavailable) {
		t.Error(err)
	}
	if worst, ok := history.Check(limit.Per, limit.Permits, ops); !ok {
		t.Errorf("over: %v", worst)
	}
}

// Where no majority of the nodes can be reached, the outage policy answers after at most five
// seconds, although a shard is there; and no longer once there is a majority again.
func TestWithoutAMajorityNobodyIsServed(t *testing.T) {
	t.Parallel()
	fl, posts := proxied(t, 3)
	l := limiter(t, fl.client(t, patientFor(250*time.Millisecond), wary), "l",
		shardlimit.Limit{Permits: 3000, Per: time.Second, Shards: 3})
	settled(t, l)
	for _, p := range posts[:2] {
		p.proxy.Stall(true)
	}
	within(t, takenOverWithin, "the outage policy answers", func() bool {
		_, err := l.Allow(t.Context())
		return errors.Is(err, shardlimit.ErrUnavailable) && strings.Contains(err.Error(), "no majority of the nodes")
	})
	if st, _ := l.Peek(t.Context()); sumOn(st, "") == 0 {
		t.Error("there is no shard that could have served")
	}
	for _, p := range posts[:2] {
		p.proxy.Stall(false)
	}
	within(t, takenOverWithin, "it is served", func() bool {
		d, err := l.Allow(t.Context())
		return err == nil && d.Allowed
	})
}
