package httplimit

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

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
// itself, and no key that came more often is missing.
func TestSketchKeepsItsBound(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		for name, stream := range streams(r) {
			s, truth := &sketch{}, map[string]int64{}
			for _, key := range stream {
				truth[key]++
				s.add("users", key)
			}
			if len(s.keys) > counters || len(s.at) != len(s.keys) {
				t.Fatalf("%s, seed %d: %d keys, %d places", name, seed, len(s.keys), len(s.at))
			}
			check(t, fmt.Sprintf("%s, seed %d", name, seed), s.top(counters), truth, int64(len(stream)))
		}
	}
}

func check(t *testing.T, what string, got []refusedKey, truth map[string]int64, calls int64) {
	t.Helper()
	seen := map[string]bool{}
	for _, k := range got {
		if is := truth[k.Key]; k.Calls < is || k.Calls-k.Over > is || k.Over > calls/counters || seen[k.Key] {
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
			s.add("users", key)
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
	got := s.top(2)
	if want := []refusedKey{{"users", "ann", 11, 0}, {"users", "new 7", 13, 10}}; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
