package denied

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A refusal is told for one period at least and for two at most. The log has a line for each limit
// and period.
func TestDeniedForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		d := New(time.Now())
		begin := time.Now()
		go d.Log(ctx, slog.New(slog.NewTextHandler(&log, nil)))
		for range 3 {
			d.Hear(t.Context(), shardlimit.Refusal{Limiter: "users", Key: "ann"})
		}
		d.Hear(t.Context(), shardlimit.Refusal{Limiter: "users", Key: "bob"})
		d.Hear(t.Context(), shardlimit.Refusal{Limiter: "hosts", Key: "a b"})
		d.Hear(t.Context(), shardlimit.Refusal{Limiter: "a limit without keys"})
		for i, want := range []string{"hosts users", "hosts users", "", ""} {
			since, all := d.Told()
			var limits []string
			for _, l := range all {
				limits = append(limits, l.Limiter)
			}
			if got := strings.Join(limits, " "); got != want || since.Before(begin) || time.Since(since) > 2*Period {
				t.Errorf("after %d periods: %s since %s", i, got, since)
			}
			if want != "" && (all[1].Calls != 4 || all[1].Keys[0] != Key{"ann", 3, 0} || len(all[1].Keys) != 2) {
				t.Errorf("%+v", all[1])
			}
			time.Sleep(Period)
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		for _, want := range []string{`limiter=hosts calls=1 keys="\"a b\" 1"`,
			`limiter=users calls=4 keys="\"ann\" 3, \"bob\" 1"`} {
			if strings.Count(log.String(), want) != 1 || strings.Count(log.String(), "\n") != 2 {
				t.Errorf("no line with %s: %s", want, log.String())
			}
		}
	})
}

func TestDeniedIsSafeForConcurrentUse(t *testing.T) {
	d := New(time.Now())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				d.Hear(t.Context(), shardlimit.Refusal{Limiter: "users", Key: "ann"})
				d.Told()
			}
		})
	}
	wg.Wait()
	if _, all := d.Told(); all[0].Calls != 8000 {
		t.Errorf("%+v", all)
	}
}

// streams are calls of many kinds: what a sketch must bear.
func streams(r *rand.Rand) map[string][]string {
	const calls = 5000
	zipf := rand.NewZipf(r, 1.1, 1, 10_000)
	all := map[string][]string{"nothing": nil}
	for range 1 + r.IntN(calls) {
		all["Zipf"] = append(all["Zipf"], fmt.Sprint(zipf.Uint64()))
		all["even"] = append(all["even"], fmt.Sprint(r.IntN(2*counters)))
		all["few"] = append(all["few"], fmt.Sprint(r.IntN(counters)))
	}
	for i := range calls { // each comes once, and takes a counter; one comes every hundredth time
		all["made up"] = append(all["made up"], fmt.Sprint("made up ", i))
		if i%100 == 0 {
			all["made up"] = append(all["made up"], "ann")
		}
	}
	for i := range counters * 4 { // in turns: who comes next has just lost its counter
		all["in turns"] = append(all["in turns"], fmt.Sprint(i%(counters+1)))
	}
	return all
}

// Of n calls each count is too high by at most n over counters and never too low, as it says
// itself, and no key that came more often is missing: in one sketch, and in two together.
func TestSketchKeepsItsBound(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		for name, stream := range streams(r) {
			a, b, truth := &sketch{}, &sketch{}, map[string]int64{}
			cut := r.IntN(len(stream) + 1)
			for i, key := range stream {
				truth[key]++
				if i < cut {
					a.add(key)
				} else {
					b.add(key)
				}
			}
			if len(a.keys) > counters || len(a.at) != len(a.keys) {
				t.Fatalf("%s, seed %d: %d keys, %d places", name, seed, len(a.keys), len(a.at))
			}
			check(t, fmt.Sprintf("%s, seed %d", name, seed), top(a, b, 2*counters), truth, int64(len(stream)))
		}
	}
}

func check(t *testing.T, what string, got []Key, truth map[string]int64, calls int64) {
	t.Helper()
	seen := map[string]bool{}
	for _, k := range got {
		if is := truth[k.Key]; k.Count < is || k.Count-k.Over > is || k.Over > calls/counters || seen[k.Key] {
			t.Errorf("%s: %+v came %d times of %d", what, k, is, calls)
		}
		seen[k.Key] = true
	}
	for key := range maps.Keys(truth) {
		if truth[key] > calls/counters && !seen[key] {
			t.Errorf("%s: %q came %d times of %d, and is missing", what, key, truth[key], calls)
		}
	}
}

// The key that surely came most often stands first. One that took over the counter of another key
// stands behind it. No more keys are told than were asked for.
func TestTopIsInOrder(t *testing.T) {
	s := &sketch{}
	add := func(key string, times int) {
		for range times {
			s.add(key)
		}
	}
	add("ann", 11)
	for i := range counters - 1 {
		add(fmt.Sprint(i), 10)
	}
	for i := range counters - 1 { // takes a counter that stands at ten
		add(fmt.Sprint("new ", i), 1)
	}
	add("new 7", 2)
	got := top(&sketch{}, s, 2)
	if want := []Key{{"ann", 11, 0}, {"new 7", 13, 10}}; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
