package majority

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/internal/extent"
)

var walks = flag.Int("majority.walks", 20_000, "random walks through worlds of places and rounds")

// drawn is a world that is drawn for a seed.
func drawn(seed uint64) *rules {
	var r rules
	random := rand.New(rand.NewPCG(seed, 2))
	r.places = 3 + 2*random.IntN(2)
	r.proposers = 2 + random.IntN(2)
	r.rounds = r.proposers * (1 + random.IntN(4))
	r.forgets, r.restarts, r.saves = random.IntN(5), random.IntN(4), random.IntN(6)
	r.deaf, r.reads = random.IntN(3), random.IntN(3)
	r.confirms = random.IntN(2) == 0
	r.absent, r.renews = random.IntN(8) < 5, random.IntN(4)
	r.bare, r.unused = random.IntN(2) == 0, random.IntN(2) == 0
	return &r
}

// Larger histories than can all be visited, drawn at random.
func TestRandomWalks(t *testing.T) {
	steps := 0
	for seed := range extent.Some(*walks) {
		r, random := drawn(uint64(seed)), rand.New(rand.NewPCG(uint64(seed), 1))
		w, path := newWorld(r), []step(nil)
		for all := w.steps(); len(all) > 0 && len(path) < 50*r.rounds; all = w.steps() {
			path = append(path, all[random.IntN(len(all))])
			var err error
			if w, err = w.after(path[len(path)-1]); err != nil {
				t.Fatalf("seed %d: %v after %v", seed, err, path)
			}
		}
		steps += len(path)
	}
	t.Logf("%d steps", steps)
}

// mutants break one rule each. Some begin after steps without which the search would be long.
var mutants = []struct {
	name string
	rules
	after string
}{
	{"a majority of one", rules{quorum: 1}, ""},
	{"a place votes after it forgot", rules{amnesia: true, forgets: 1}, ""},
	{"a restore for any life", rules{looseRestore: true, proposers: 3, forgets: 2},
		"E0.2 p0.0 p0.1 p0.2 c0.0 a0.0 a0.1 r0.0 p1.0 p1.2 c1.0"},
	{"an accept for any life", rules{looseAccept: true, proposers: 3, forgets: 1}, ""},
	{"a read that trusts a minority", rules{trustingRead: true, proposers: 1, reads: 1}, ""},
	{"a promise that is not kept", rules{brokenPromise: true}, ""},
	{"restored before it is chosen", rules{earlyRestore: true, proposers: 3, forgets: 1}, "p0.1 p1.1 p1.0 c1.0"},
	{"a promise after the choice counts", rules{lateVoter: true, proposers: 3, forgets: 1}, "p0.0 p2.2 E0.2"},
	{"revived by blank places just found", rules{hastyRevival: true, forgets: 1, restarts: 1}, ""},
	{"revived before all answer", rules{fewRevive: true, proposers: 1, rounds: 3, forgets: 1, restarts: 1},
		"R0.1 p0.2 p0.0 c0.0 a0.0 a0.1"},
	{"an absent place votes with no pointer", rules{noPointer: true, absent: true, forgets: 1}, ""},
	{"one that only promised votes with no pointer", rules{barePromise: true, absent: true, proposers: 3, forgets: 1},
		"p0.0 p0.1 c0.0 a0.0 a0.1 E0.0 p1.0"},
	{"an absent place votes with a pointer of another run", rules{oldPointer: true, absent: true, forgets: 1}, ""},
	{"a pointer is renewed before its register is", rules{renewAll: true, absent: true, forgets: 1, renews: 1}, ""},
	{"a pointer is renewed before a register begins that is not chosen yet", rules{renewUnchosen: true, absent: true,
		forgets: 1, renews: 1}, ""},
	{"an absent place has the mark of its run", rules{sameMark: true, absent: true, forgets: 1, renews: 1}, ""},
	{"what is final is asked before places have moved", rules{hastyMove: true, moves: true, reads: 1}, ""},
	{"one place tells what is final", rules{fewFinal: true, moves: true, reads: 1}, ""},
	// No rule is broken here: it is what the package comment says is not safe.
	{"all that accepted it forget", rules{emptyMinority: true, proposers: 1, rounds: 2, forgets: 3}, "E0.0 E0.1 E0.2"},
}

// Each broken rule is noticed; without it, what follows the same steps is well.
func TestBrokenRulesAreNoticed(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			for seed := range uint64(20) {
				w := newWorld(&m.rules)
				for _, text := range strings.Fields(m.after) {
					var s step
					if _, err := fmt.Sscanf(text, "%c%d.%d", &s.what, &s.k, &s.i); err != nil {
						t.Fatal(err)
					}
					var err error
					if w, err = w.after(s); err != nil {
						t.Fatal(err)
					}
				}
				states, trace, err := explore(w, 300_000, rand.New(rand.NewPCG(seed, 3)))
				if err != nil && !errors.Is(err, errTooMany) {
					t.Logf("order %d, %d states: %v after %v", seed, states, err, trace)
					return
				}
			}
			t.Error("nothing is noticed")
		})
	}
}
