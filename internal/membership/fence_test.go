package membership

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/limittest/redissim"
	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/shard"
)

// town is four servers half a millisecond away, of which three keep the membership: not n3.
type town struct {
	servers []*redissim.Server
	down    [4]atomic.Bool
}

// With this prefix these nodes keep the records.
const prefix = "a:"

var places = []string{"n0", "n1", "n2"}

func newTown(tb testing.TB) *town {
	w := &town{}
	for range w.down {
		s := redissim.NewServer(time.Now)
		go s.Serve()
		tb.Cleanup(s.Close)
		w.servers = append(w.servers, s)
	}
	return w
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// process is a fence of a process that can reach the servers that are not down, and has confirmed
// the membership.
func (w *town) process(tb testing.TB) *Fence {
	tb.Helper()
	f := w.listing(tb, len(w.servers))
	must(tb, f.ConfirmSince(tb.Context(), 0))
	return f
}

// listing is one of a process that lists so many of the servers, of which nothing is known yet.
func (w *town) listing(tb testing.TB, n int) *Fence {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	spawn := func(task func(context.Context)) bool { go task(ctx); return true }
	s := node.Settings{Ctx: ctx, Clock: &clock.Clock{Base: time.Now()}, Log: slog.New(slog.DiscardHandler),
		CallTimeout: 100 * time.Millisecond, Prefix: prefix, Spawn: spawn, Back: func() {}}
	var err error
	s.Telemetry, err = telemetry.New(s.Clock, metricnoop.NewMeterProvider(), tracenoop.NewTracerProvider(), nil)
	must(tb, err)
	var specs []node.Spec
	for i, server := range w.servers[:n] {
		link := redissim.NewLink(server, func([]string) redissim.Fate {
			return redissim.Fate{Refused: w.down[i].Load(), There: 250 * time.Microsecond, Back: 250 * time.Microsecond}
		}, func() {})
		specs = append(specs, node.Spec{Name: fmt.Sprint("n", i), Weight: 1, Client: link})
	}
	fleet := node.NewFleet(s, specs)
	tb.Cleanup(func() { cancel(); fleet.Close() })
	return New(&Env{Nodes: fleet, Book: record.NewBook(fleet, "p"), After: time.Second, Changed: func() {}})
}

// calls has a process call for a while: it looks at nodes, and keeps what it knows.
func (f *Fence) calls(ctx context.Context, long time.Duration) {
	for range long / (200 * time.Millisecond) {
		for _, n := range []string{"n0", "n1", "n2", "n3"} {
			_ = f.env.Nodes.Node(n).Ping(ctx)
		}
		f.Refresh()
		time.Sleep(200 * time.Millisecond)
	}
}

// A node that is silent goes out for all, what it had is given up after the time there is for that,
// and when it answers again it is in another life.
func TestANodeGoesOutForAllAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t)
		a, b := w.process(t), w.process(t)
		if ago := time.Now().UnixMilli() - a.Generation(); ago < 0 || ago > 100 || a.Generation() != b.Generation() {
			t.Fatalf("generations %d and %d", a.Generation(), b.Generation())
		}
		life := a.Incarnation("n3")
		if life == "" || life != b.Incarnation("n3") || a.Bars("n3", life) || !a.Bars("n3", "another") || a.Out("n3") {
			t.Fatalf("lives %q and %q", life, b.Incarnation("n3"))
		}
		w.down[3].Store(true)
		a.calls(t.Context(), 5*time.Second)
		must(t, b.ConfirmSince(t.Context(), 0))
		b.calls(t.Context(), 2*time.Second)
		for _, f := range []*Fence{a, b} {
			left, known := f.GivenUpIn("n3", life, 2*time.Second)
			if !f.Out("n3") || !f.Bars("n3", life) || !known || left <= 0 || left > 8*time.Second {
				t.Fatalf("%+v: left %v, %v", f.known.Load().membership, left, known)
			}
		}
		later := strconv.FormatInt(a.Generation()+1, 36)
		if _, known := a.GivenUpIn("n3", later, time.Second); known {
			t.Error("a life that others began since is not over")
		}
		a.calls(t.Context(), 9*time.Second)
		if left, known := a.GivenUpIn("n3", life, 2*time.Second); !known || left != 0 {
			t.Errorf("left %v, %v", left, known)
		}
		w.down[3].Store(false)
		a.calls(t.Context(), 8*time.Second)
		if again := a.Incarnation("n3"); again == "" || again == life || !a.Bars("n3", life) {
			t.Errorf("the life %q after %q", again, life)
		}
		if _, known := a.GivenUpIn("n3", life, time.Second); known {
			t.Error("a node that is in need not be given up")
		}
	})
}

// A membership that every place forgot goes on as a process knows it. One who does not know it, and
// sees lives that are later, begins one that follows them.
func TestAMembershipThatAllPlacesForgot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t)
		a := w.process(t)
		w.down[3].Store(true)
		a.calls(t.Context(), 6*time.Second)
		generation, life := a.Generation(), a.Incarnation("n0")
		forget := func() {
			for _, m := range w.servers {
				m.Flush()
			}
			time.Sleep(6 * time.Second)
		}
		forget()
		if err := a.ConfirmSince(t.Context(), 0); err != nil || a.Generation() <= generation || !a.Out("n3") ||
			a.Incarnation("n0") != life {
			t.Fatalf("generation %d after %d, %v", a.Generation(), generation, err)
		}
		generation = a.Generation()
		forget()
		b := w.listing(t, len(w.servers))
		late := strconv.FormatInt(generation, 36)
		lives := []shard.Node{{Incarnation: "strange-9"}, {Incarnation: late}}
		if err := b.Follow(t.Context(), lives); err != nil || b.Generation() <= generation {
			t.Fatalf("generation %d after %d, %v", b.Generation(), generation, err)
		}
		for _, n := range []string{"n0", "n1", "n2"} {
			if !b.Bars(n, life) || !b.Bars(n, late) || b.Incarnation(n) == "" {
				t.Errorf("%s is in the life %q", n, b.Incarnation(n))
			}
		}
		if err := a.ConfirmSince(t.Context(), 0); err != nil || a.Generation() != b.Generation() {
			t.Errorf("generations %d and %d, %v", a.Generation(), b.Generation(), err)
		}
	})
}

// A process that does not list a node misses it once, and not again when others can reach it.
func TestWhoListsLessMissesANodeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t)
		all, fewer := w.process(t), w.listing(t, len(places))
		must(t, fewer.ConfirmSince(t.Context(), 0))
		first := all.Generation()
		for range 300 {
			all.Refresh()
			fewer.Refresh()
			time.Sleep(200 * time.Millisecond)
		}
		if n := all.Generation() - first; n < 1 || n > 3 || all.Out("n3") {
			t.Errorf("%d changes in a minute, out: %v", n, all.Out("n3"))
		}
	})
}

func TestANodeIsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTown(t).listing(t, 4)
		nodes := []shard.Node{{Name: "n0"}, {Name: "new"}}
		if err := f.Admit(t.Context(), nodes); err != nil || f.Incarnation("new") == "" || f.Incarnation("n3") == "" {
			t.Errorf("%+v, %v", f.known.Load(), err)
		}
	})
}

// Of hostile lives none is taken for one of ours.
func FuzzBegan(f *testing.F) {
	f.Add("1")
	f.Add("-1")
	f.Add("zzzzzzzzzzzzz")
	f.Fuzz(func(t *testing.T, life string) {
		if n := began(life); n < 0 || n >= majority.MaxNumber || n > 0 && life == "" {
			t.Errorf("%q began in %d", life, n)
		}
	})
}

// The wall clock of a process is set forward by an hour when a node has just gone out. That gives
// nothing up any sooner: what the node granted may still be in use.
func TestAWallClockThatIsSetForwardGivesNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t)
		f := w.process(t)
		life := f.Incarnation("n3")
		w.down[3].Store(true)
		for !f.Out("n3") {
			f.calls(t.Context(), 200*time.Millisecond)
		}
		now := f.env.Nodes.Clock
		now.Stop(-time.Hour) // both clocks gain an hour, and then the monotonic one loses it again
		now.Suspend(time.Hour + time.Millisecond)
		left, known := f.GivenUpIn("n3", life, time.Minute)
		if !known || left < 50*time.Second {
			t.Errorf("given up in %v (%v)", left, known)
		}
	})
}

// A membership that no limit is under any more is told of no longer.
func TestAMembershipThatNobodyUsesIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t)
		f := w.process(t)
		f.calls(t.Context(), time.Second)
		w.down[3].Store(true)
		f.calls(t.Context(), 5*time.Second)
		if !f.Nodes()["n3"] {
			t.Fatalf("%v", f.Nodes())
		}
		if time.Sleep(confirmFor + time.Second); len(f.Nodes()) > 0 {
			t.Errorf("%v long after the last look", f.Nodes())
		}
	})
}

// For how long a membership was held is told only of the one that was found, not of one that this
// process knows to be later.
func TestAMembershipThatWasNotFoundWasNotHeld(t *testing.T) {
	m := majority.NewMembership(7, places...)
	text, err := m.Encode()
	must(t, err)
	f, found := newTown(t).listing(t, 4), record.Reading{Found: majority.Found{Exists: true, Value: text, Held: time.Hour}}
	if got, held, err := f.begin(found); err != nil || got.Generation != 7 || held != time.Hour {
		t.Errorf("the one that was found: %+v, %v, %v", got, held, err)
	}
	f.known.Store(&knowledge{membership: m.Outlast()})
	if got, held, err := f.begin(found); err != nil || got.Generation != 9 || held != 0 {
		t.Errorf("another one: %+v, %v, %v", got, held, err)
	}
}
