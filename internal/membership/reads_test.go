package membership

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/internal/redissim"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

var readers = flag.Int("readers", 200, "how many processes TestReadsOfManyProcesses has")

// However often processes call, each reads the membership once in a third of the time for which it
// relies on it, at every place. With -v the test tells how many reads that is.
func TestReadsOfManyProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seconds, between = 10, 100 * time.Millisecond
		var servers []*redissim.Server
		for range 4 {
			s := redissim.NewServer(time.Now)
			go s.Serve()
			defer s.Close()
			servers = append(servers, s)
		}
		var fences []*Fence
		for range *readers {
			f := reader(t, servers)
			if err := f.ConfirmSince(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			fences = append(fences, f)
			time.Sleep(confirmEvery / time.Duration(*readers)) // they were not started at one instant
		}
		begun := readsOf(servers)
		for range seconds * int(time.Second/between) {
			for _, f := range fences {
				f.Refresh()
			}
			time.Sleep(between)
		}
		each := make([]float64, len(servers))
		for i, n := range readsOf(servers) {
			each[i] = float64(n-begun[i]) / seconds
		}
		t.Logf("%d processes: %.0f reads a second at each of the places; %v at each node", *readers, each[0], each)
		most := float64(*readers) / confirmEvery.Seconds() * 1.1
		for i := range places {
			if each[i] < most/2 || each[i] > most {
				t.Errorf("place %d: %.1f reads a second, want at most %.1f", i, each[i], most)
			}
		}
		if each[3] > 0 {
			t.Errorf("a node that is no place is read %.1f times a second", each[3])
		}
	})
}

func readsOf(servers []*redissim.Server) (n []int64) {
	for _, s := range servers {
		n = append(n, s.Scripts.Load())
	}
	return n
}

// reader is a process half a millisecond away from every server.
func reader(t *testing.T, servers []*redissim.Server) *Fence {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := node.Settings{Ctx: ctx, Clock: &clock.Clock{Base: time.Now()}, Log: slog.New(slog.DiscardHandler),
		CallTimeout: 100 * time.Millisecond, Prefix: prefix,
		Spawn: func(task func(context.Context)) bool { go task(ctx); return true }}
	var err error
	if s.Telemetry, err = telemetry.New(s.Clock, metricnoop.NewMeterProvider(), tracenoop.NewTracerProvider(),
		nil); err != nil {
		t.Fatal(err)
	}
	var specs []node.Spec
	for i, server := range servers {
		link := redissim.NewLink(server, func([]string) redissim.Fate {
			return redissim.Fate{There: 250 * time.Microsecond, Back: 250 * time.Microsecond}
		}, func() {})
		specs = append(specs, node.Spec{Name: fmt.Sprint("n", i), Weight: 1, Client: link})
	}
	fleet := node.NewFleet(s, specs)
	t.Cleanup(func() { cancel(); fleet.Close() })
	return New(&Env{Nodes: fleet, Book: record.NewBook(fleet, "p"), After: time.Second})
}
