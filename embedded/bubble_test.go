package embedded_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/internal/race"
)

// A user's test of what happens when a limit is used up, and an hour later.
func TestAnHourPassesInNoTime(t *testing.T) {
	race.OneProcessor(t)
	synctest.Test(t, func(t *testing.T) {
		servers, err := embedded.StartInMemory(1)
		if err != nil {
			t.Fatal(err)
		}
		defer servers.Close()
		client, err := shardlimit.New(shardlimit.Config{Nodes: servers.Nodes()})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		mails, err := client.Limiter(t.Context(), "mails", shardlimit.PerHour(1))
		if err != nil {
			t.Fatal(err)
		}

		if d, err := mails.Allow(t.Context()); err != nil || !d.Allowed {
			t.Fatalf("the first mail: %+v, %v", d, err)
		}
		if d, err := mails.Allow(t.Context()); err != nil || d.Allowed {
			t.Fatalf("the second mail: %+v, %v", d, err)
		}
		time.Sleep(time.Hour)
		if d, err := mails.Allow(t.Context()); err != nil || !d.Allowed {
			t.Fatalf("an hour later: %+v, %v", d, err)
		}

		began := time.Now()
		if err := mails.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < time.Hour-time.Millisecond || waited > time.Hour+time.Second {
			t.Errorf("Wait took %v", waited)
		}
	})
}

// Nodes in memory go away, come back and lose what they had, as those on ports do.
func TestNodesInMemoryFail(t *testing.T) {
	race.OneProcessor(t)
	synctest.Test(t, func(t *testing.T) {
		servers, err := embedded.StartInMemory(2)
		if err != nil {
			t.Fatal(err)
		}
		defer servers.Close()
		client, err := shardlimit.New(shardlimit.Config{Nodes: servers.Nodes(), AfterLoss: shardlimit.Quarantine})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		time.Sleep(time.Minute) // the nodes are older than the limit
		l, err := client.Limiter(t.Context(), "l", shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 2})
		if err != nil {
			t.Fatal(err)
		}
		granted := func() (n int64) {
			t.Helper()
			d, err := l.AllowUpTo(t.Context(), 10)
			if err != nil && !errors.Is(err, shardlimit.ErrUnavailable) {
				t.Fatal(err)
			}
			return d.Granted
		}
		if n := granted(); n != 10 {
			t.Fatalf("%d permits", n)
		}
		for i := range 2 {
			if err := servers.Stop(i); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := client.Limiter(t.Context(), "l", shardlimit.PerMinute(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := l.Allow(t.Context()); !errors.Is(err, shardlimit.ErrUnavailable) {
			t.Errorf("without a node: %v", err)
		}
		for i := range 2 {
			if err := servers.Resume(i); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		first := granted() // it has a node looked at that nobody has asked since
		time.Sleep(time.Second)
		if n := first + granted(); n != 10 {
			t.Errorf("%d permits from nodes that are back", n)
		}
		for i := range 2 {
			if err := servers.Lose(i); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		if n := granted(); n != 0 {
			t.Errorf("%d permits from nodes that forgot", n)
		}
		time.Sleep(2 * time.Minute)
		first = granted()
		time.Sleep(time.Second)
		if n := first + granted(); n != 10 {
			t.Errorf("%d permits after the quarantine", n)
		}
	})
}

// Outside a bubble they are nodes like others, reached by this process alone.
func TestNodesInMemoryWithoutABubble(t *testing.T) {
	if s, err := embedded.StartInMemory(0); err == nil {
		s.Close()
		t.Error("no nodes were started")
	}
	servers, err := embedded.StartInMemory(3)
	if err != nil {
		t.Fatal(err)
	}
	client, err := shardlimit.New(shardlimit.Config{Nodes: servers.Nodes(), CallTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	l, err := client.Limiter(context.Background(), "l", shardlimit.Limit{Permits: 9, Per: time.Hour, Shards: 3})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := l.AllowN(context.Background(), 9); err != nil || !d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
	client.Close()
	servers.Close()
	if err := servers.Resume(0); !errors.Is(err, embedded.ErrClosed) {
		t.Errorf("resumed: %v", err)
	}
}

// A lost node is noticed by others of a limit with takeover, which need to know one run of a
// server from the next.
func TestALostNodeIsTakenOverInABubble(t *testing.T) {
	race.OneProcessor(t)
	synctest.Test(t, func(t *testing.T) {
		servers, err := embedded.StartInMemory(3)
		if err != nil {
			t.Fatal(err)
		}
		defer servers.Close()
		client, err := shardlimit.New(shardlimit.Config{Nodes: servers.Nodes(), NodeTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		limit := shardlimit.Limit{Permits: 30, Per: time.Second, Shards: 3}
		l, err := client.Limiter(t.Context(), "l", limit)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := l.AllowN(t.Context(), 30); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		if err := servers.Stop(0); err != nil {
			t.Fatal(err)
		}
		for range 200 { // somebody calls, so the loss is noticed
			time.Sleep(200 * time.Millisecond)
			_, _ = l.Allow(t.Context())
		}
		time.Sleep(2 * time.Second)
		if d, err := l.AllowN(t.Context(), 30); err != nil || !d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
