package shard_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shardlimit/shardlimit/internal/extent"
)

// simulate runs one random history and returns what it broke, and its world.
func simulate(seed uint64, r rules) (*world, error) {
	w := newWorld(rand.New(rand.NewPCG(seed, 1)), r)
	for range 3000 {
		if err := w.step(); err != nil {
			return w, err
		}
	}
	w.completed = w.settled
	return w, w.recover()
}

func TestTransition(t *testing.T) {
	runs := extent.Some(uint64(2000))
	settled, forgotten := 0, 0
	for seed := range runs {
		for _, anew := range []bool{false, true} {
			r := safe()
			r.anew, r.losses = anew, seed%2 == 1
			w, err := simulate(seed, r)
			if err != nil {
				t.Fatalf("seed %d, with layouts forgotten: %v: %v", seed, anew, err)
			}
			settled += w.completed
			forgotten += w.forgotten
		}
	}
	t.Logf("%d histories, %d transitions completed before the faults stopped, %d times layouts were forgotten",
		2*runs, settled, forgotten)
	if settled < int(runs) || forgotten < int(runs)/2 {
		t.Error("too few: the simulation proves little")
	}
}

func FuzzTransition(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		if _, err := simulate(seed, safe()); err != nil {
			t.Fatal(err)
		}
	})
}

// check is the invariant: P1 over every window that counts, and the sum of the shares in force.
func (w *world) check() error {
	limit, window := slices.Max(w.chain), forever
	for _, i := range w.windows {
		if w.now < i.until {
			window = min(window, i.window)
		}
	}
	var shares, used, truth int64
	for at, c := range w.cells {
		if !c.present || w.now >= c.expires {
			continue
		}
		u := c.used(w.now)
		if u > c.share {
			return fmt.Errorf("shard %v uses %d of %d", at, u, c.share)
		}
		used += u
		shares += c.share
	}
	for _, g := range w.granted {
		if w.now < g.at+window {
			truth += g.n
		}
	}
	if max(shares, used, truth) > limit {
		return fmt.Errorf("tick %d: shares %d, logs %d, granted in the window %d; limit %d\n%+v", w.now, shares, used,
			truth, limit, w.register)
	}
	return nil
}

// recover stops all faults and lets one driver finish what is under way.
func (w *world) recover() error {
	clear(w.down)
	w.wire, w.replies = nil, nil
	d := &w.drivers[0]
	for range 200 {
		w.now++
		w.look(d)
		if d.layout.Settled {
			return w.checkSettled()
		}
		step := w.plan(d.layout, d.obs)
		if step.Done {
			w.settle(d.layout.Settle(0))
			continue
		}
		for j, s := range d.layout.Shards {
			p := w.proposalFor(d.layout, j)
			p.floor = max(p.floor, step.Raise[j])
			d.obs[j] = w.cell(place(s)).propose(w.now, w.memory, p).observation()
		}
		if err := w.check(); err != nil {
			return err
		}
	}
	return errors.New("does not settle")
}

// checkSettled lets every shard hear of the settled layout, and wants the shares to sum to exactly
// the limit.
func (w *world) checkSettled() error {
	var sum int64
	for range 2 { // the second time after all quarantines
		sum = 0
		for j, s := range w.register.Shards {
			sum += w.cell(place(s)).propose(w.now, w.memory, w.proposalFor(w.register, j)).share
		}
		if err := w.check(); err != nil {
			return err
		}
		w.now += w.memory + ticks(w.register)
	}
	if sum != w.register.Permits {
		return fmt.Errorf("settled shares sum to %d, not %d", sum, w.register.Permits)
	}
	return w.check()
}
