package record

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/limittest/redissim"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/shard"
)

// post is a simulated server as processes reach it.
type post struct {
	*redissim.Server
	down    atomic.Bool  // nobody reaches it
	stalled atomic.Bool  // nobody hears of it
	far     atomic.Int64 // by so much farther, nanoseconds
	late    atomic.Int64 // a message comes by up to so much later, nanoseconds
	lossy   atomic.Int64 // of a hundred commands so many are lost, or their replies are
}

// town is servers half a millisecond away.
type town map[string]*post

// newTown is servers of these names, of one letter each.
func newTown(t *testing.T, names string) town {
	t.Helper()
	w := town{}
	for _, name := range strings.Split(names, "") {
		w[name] = &post{Server: redissim.NewServer(time.Now)}
		go w[name].Serve()
		t.Cleanup(w[name].Close)
	}
	return w
}

// inTown has a test take place in simulated time, in a town in which a process has written "v" to
// its limit.
func inTown(t *testing.T, names string, test func(t *testing.T, w town, b *Book)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, names)
		b := w.process(t, names)
		write(t, limit(b), "v")
		test(t, w, b)
	})
}

// process is one with nodes of these names, of one letter each.
func (w town) process(t *testing.T, names string) *Book {
	t.Helper()
	var specs []node.Spec
	for _, name := range strings.Split(names, "") {
		p := w[name]
		link := redissim.NewLink(p.Server, func(args []string) redissim.Fate {
			f := redissim.Fate{Refused: p.down.Load(), Lost: p.stalled.Load(),
				There: 250*time.Microsecond + time.Duration(p.far.Load()), Back: 250 * time.Microsecond}
			f.There += time.Duration(rand.Int64N(p.late.Load() + 1))
			if strings.HasPrefix(args[0], "EVAL") && rand.Int64N(100) < p.lossy.Load() {
				f.Lost = rand.IntN(2) == 0
				f.ReplyLost = true
			}
			return f
		}, func() {})
		specs = append(specs, node.Spec{Name: name, Weight: 1, Client: link})
	}
	return processOf(t, fmt.Sprint("process ", rand.Uint64()), specs)
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func processOf(t *testing.T, name string, specs []node.Spec) *Book {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := node.Settings{Ctx: ctx, Clock: &clock.Clock{Base: time.Now()}, Log: slog.New(slog.DiscardHandler),
		CallTimeout: 100 * time.Millisecond, Back: func() {},
		Spawn: func(task func(context.Context)) bool { go task(ctx); return true }}
	var err error
	s.Telemetry, err = telemetry.New(s.Clock, metricnoop.NewMeterProvider(), tracenoop.NewTracerProvider(), nil)
	must(t, err)
	fleet := node.NewFleet(s, specs)
	t.Cleanup(func() { cancel(); fleet.Close() })
	return NewBook(fleet, name)
}

// limit is a record of a book by the name l.
func limit(b *Book) *Record {
	return b.New("limit:l", func() time.Duration { return time.Hour }, nil, nil)
}

// kept is what a key holds, and for how much longer.
type kept struct {
	value string
	ms    int64
}

// content is what the servers hold, beside the names of nodes.
func (w town) content() map[string]kept {
	all := map[string]kept{}
	for name, p := range w {
		for _, key := range p.Keys() {
			if strings.HasSuffix(key, ":i") {
				continue
			}
			value := p.Do([]string{"GET", key})
			if p.Do([]string{"TYPE", key}) == "zset" {
				value = p.Do([]string{"ZRANGE", key, "0", "-1"})
			}
			ms, _ := p.Do([]string{"PTTL", key}).(int64)
			all[name+" "+key] = kept{fmt.Sprint(value), ms}
		}
	}
	return all
}

// pointers are the nodes that say where the records are, and vote for records that are not there.
func (w town) pointers() (names []string) {
	for name, p := range w {
		if text, ok := p.Do([]string{"GET", "{" + shard.Tag(HomeSlot) + "}:p"}).(string); ok && text != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// write has the record be a text.
func write(t *testing.T, r *Record, text string) Reading {
	t.Helper()
	got, err := r.Change(t.Context(), func(Reading) (string, error) { return text, nil })
	if err != nil || !got.Exists || got.Value != text {
		t.Fatalf("%+v, %v", got, err)
	}
	return got
}

// add changes a record as processes do: what it is to be follows from what it was.
func add(ctx context.Context, r *Record, text string) error {
	_, err := r.Change(ctx, func(found Reading) (string, error) {
		if slices.Contains(strings.Split(found.Value, ","), text) {
			return found.Value, nil // by a round that ended in an error
		}
		return found.Value + "," + text, nil
	})
	return err
}

// found is what a change finds that changes nothing.
func found(t *testing.T, r *Record) Reading {
	t.Helper()
	got, err := r.Change(t.Context(), func(got Reading) (string, error) { return got.Value, nil })
	must(t, err)
	return got
}

// look reads a record once. A whole look hears every place.
func look(t *testing.T, r *Record, whole bool) (got Reading, err error) {
	t.Helper()
	err = r.Read(t.Context(), true, whole, func(found Reading) error { got = found; return nil })
	return got, err
}

// read is what a majority confirms.
func read(t *testing.T, r *Record) Reading {
	t.Helper()
	got, err := look(t, r, false)
	if err != nil || !got.Exists {
		t.Fatalf("%+v, %v", got, err)
	}
	return got
}
