package faults

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// What a lost node has of a limit is served by the others, whatever it is that it does, and no
// window is ever over. When it is back, whether it remembers or not, it has a part again.
func TestALostNodeIsTakenOver(t *testing.T) {
	t.Parallel()
	for _, f := range append([]limittest.NodeFailure{
		{Name: "comes back empty", Cause: func(p *limittest.ProxiedNode) { p.Server.Kill(); p.Proxy.Cut() },
			Cure: func(p *limittest.ProxiedNode) { p.Server.Restart() }},
	}, limittest.NodeFailures[1:]...) {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			lostNodeIsTakenOver(t, f)
		})
	}
}

func lostNodeIsTakenOver(t *testing.T, f limittest.NodeFailure) {
	limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: 4}
	fl, posts := limittest.Proxied(t, 4)
	var limiters []*shardlimit.Limiter
	for range 3 {
		limiters = append(limiters, limittest.Limiter(t,
			fl.Client(t, limittest.PatientFor(250*time.Millisecond), limittest.Wary), "l", limit))
	}
	limittest.Settled(t, limiters[0])
	calls := limittest.NewTraffic(t)
	calls.Dying, calls.Rest = true, 30*time.Millisecond // it waits: that spares the processor
	calls.Start(2, limiters...)
	first := limittest.Peek(t, limiters[0])
	lost := posts[0].Name
	f.Cause(posts[0])
	began := time.Now()
	served := func(without string) bool {
		st, _ := limiters[1].Peek(t.Context())
		return st.Settled && st.Epoch > first.Epoch && limittest.SumOn(st, without) == limit.Permits
	}
	limittest.AwaitWithin(t, limittest.TakenOverWithin, "the others have all of it",
		func() bool { return served(lost) }, func() string {
			st, err := limiters[1].Peek(t.Context())
			return limittest.StateText(st, err)
		})
	for _, l := range limiters {
		limittest.AwaitWithin(t, limittest.TakenOverWithin, "each process has heard of it",
			func() bool { return limittest.SumOn(limittest.Peek(t, l), lost) == limit.Permits })
	}
	t.Logf("taken over after %v", time.Since(began).Round(time.Millisecond))
	f.Cure(posts[0])
	began = time.Now()
	limittest.AwaitWithin(t, limittest.TakenOverWithin, "it has a part again", func() bool {
		st, _ := limiters[2].Peek(t.Context())
		return st.Settled && limittest.SumOn(st, lost) < limit.Permits && limittest.SumOn(st, "") == limit.Permits
	})
	t.Logf("in again after %v", time.Since(began).Round(time.Millisecond))
	ops, err := calls.Stop()
	if err != nil && !errors.Is(err, shardlimit.ErrUnavailable) { // the machine may be busy
		t.Error(err)
	}
	if worst, ok := history.Check(limit.Per, limit.Permits, ops); !ok {
		t.Errorf("over: %v", worst)
	}
}

// A limit with one shard, and the keys of a family, are served elsewhere when their node is lost;
// the limit can be changed although the node kept its record, too.
func TestWhatIsWhollyOnALostNodeIsServedElsewhere(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 3)
	c := fl.Client(t, limittest.PatientFor(250*time.Millisecond), limittest.Wary)
	one := shardlimit.Limit{Permits: 5, Per: time.Second, Shards: 1}
	byNode := map[string]*shardlimit.Limiter{}
	for i := 0; len(byNode) < 3; i++ {
		l := limittest.Limiter(t, c, fmt.Sprint("l", i), one)
		limittest.Settled(t, l)
		byNode[limittest.Peek(t, l).Shards[0].Node] = l
	}
	family := limittest.Family(t, c, "f", one)
	keys := map[string]*shardlimit.Limiter{}
	for i := 0; len(keys) < 3; i++ {
		k := family.Limiter(fmt.Sprint("user ", i))
		if _, err := k.Allow(t.Context()); err != nil {
			t.Fatal(err)
		}
		keys[limittest.Peek(t, k).Shards[0].Node] = k
	}
	posts[1].Server.Kill()
	posts[1].Proxy.Cut()
	lost := posts[1].Name
	wholly := map[string]*shardlimit.Limiter{"the limit": byNode[lost], "the key": keys[lost]}
	for what, l := range wholly {
		if _, err := l.Allow(t.Context()); !errors.Is(err, shardlimit.ErrUnavailable) {
			t.Errorf("%s: %v while its node is lost", what, err)
		}
	}
	for what, l := range wholly {
		limittest.AwaitWithin(t, limittest.TakenOverWithin, what+" is served", func() bool {
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
	posts[1].Server.Restart()
	limittest.AwaitWithin(t, limittest.TakenOverWithin, "keys are on all nodes again", func() bool {
		_, _ = keys[lost].Allow(t.Context())
		return len(limittest.HomesOfKeys(t, family)) == 3
	})
}

// A node that some processes cannot reach is given up by all; no window is over meanwhile.
func TestANodeThatSomeCannotReachIsTakenOver(t *testing.T) {
	t.Parallel()
	limit := shardlimit.Limit{Permits: 300, Per: time.Second, Shards: 3}
	fl, _ := limittest.Independent(t, 3)
	behind, post := fl.BehindProxy(t)
	near := limittest.Limiter(t, fl.Client(t, limittest.PatientFor(250*time.Millisecond), limittest.Wary), "l", limit)
	limittest.Settled(t, near)
	far := limittest.Limiter(t, behind.Client(t, limittest.PatientFor(250*time.Millisecond), limittest.Wary), "l",
		limit)
	limittest.Settled(t, far)
	first := limittest.Peek(t, near)
	calls := limittest.NewTraffic(t)
	calls.Dying = true // what it granted cannot be given back by who cannot reach it
	calls.Start(4, near, far)
	post.Proxy.Stall(true)
	for _, l := range []*shardlimit.Limiter{near, far} {
		limittest.AwaitWithin(t, limittest.TakenOverWithin, "it is taken over",
			func() bool { return limittest.Peek(t, l).Epoch > first.Epoch })
	}
	limittest.AwaitWithin(t, limittest.TakenOverWithin, "the others have all of it", func() bool {
		st := limittest.Peek(t, near)
		return st.Settled && limittest.SumOn(st, post.Name) == limit.Permits
	})
	ops, err := calls.Stop()
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
	fl, posts := limittest.Proxied(t, 3)
	l := limittest.Limiter(t, fl.Client(t, limittest.PatientFor(250*time.Millisecond), limittest.Wary), "l",
		shardlimit.Limit{Permits: 3000, Per: time.Second, Shards: 3})
	limittest.Settled(t, l)
	for _, p := range posts[:2] {
		p.Proxy.Stall(true)
	}
	limittest.AwaitWithin(t, limittest.TakenOverWithin, "the outage policy answers", func() bool {
		_, err := l.Allow(t.Context())
		return errors.Is(err, shardlimit.ErrUnavailable) && strings.Contains(err.Error(), "no majority of the nodes")
	})
	if st, _ := l.Peek(t.Context()); limittest.SumOn(st, "") == 0 {
		t.Error("there is no shard that could have served")
	}
	for _, p := range posts[:2] {
		p.Proxy.Stall(false)
	}
	limittest.AwaitWithin(t, limittest.TakenOverWithin, "it is served", func() bool {
		d, err := l.Allow(t.Context())
		return err == nil && d.Allowed
	})
}
