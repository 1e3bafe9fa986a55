package majority

import (
	"bytes"
	"flag"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shardlimit/shardlimit/internal/extent"
)

var deep = flag.Bool("majority.deep", false, "explore larger worlds of places and rounds: some minutes")

// explorer visits every world that can come about.
type explorer struct {
	seen  map[[2]uint64]struct{}
	seeds [2]maphash.Seed
	path  []step
	most  int
	mix   *rand.Rand // draws the order of steps; nil: as listed
	buf   [9][]byte
}

func explore(from world, most int, mix *rand.Rand) (states int, trace []step, err error) {
	e := explorer{seen: map[[2]uint64]struct{}{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		most: most, mix: mix}
	err = e.visit(from)
	return len(e.seen), e.path, err
}

var errTooMany = fmt.Errorf("too many states")

func (e *explorer) visit(w world) error {
	key := e.key(&w)
	if _, ok := e.seen[key]; ok {
		return nil
	}
	if e.seen[key] = struct{}{}; len(e.seen) > e.most {
		return errTooMany
	}
	steps := w.steps()
	if e.mix != nil {
		e.mix.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	}
	for _, s := range steps {
		e.path = append(e.path, s)
		next, err := w.after(s)
		if err != nil {
			return err
		}
		if err := e.visit(next); err != nil {
			return err
		}
		e.path = e.path[:len(e.path)-1]
	}
	return nil
}

// key stands for a world and all that differ from it only in which place is which.
func (e *explorer) key(w *world) [2]uint64 {
	columns := e.buf[:w.places]
	for i := range columns {
		columns[i] = w.column(columns[i][:0], i)
	}
	order := slices.Clone(columns)
	slices.SortFunc(order, bytes.Compare)
	b := append(bytes.Join(order, []byte{0xff}), w.chosen+"/"+w.final...)
	b = append(b, byte(w.forgot), byte(w.restarted), byte(w.stored), byte(w.renewed))
	for k := range w.plays {
		p := &w.plays[k]
		b = append(b, flags(p.begun, p.round.closed, p.round.revived, p.round.chosen(), p.won), byte(p.deaf))
		b = append(b, p.round.value...)
	}
	for _, l := range w.looks {
		b = append(append(b, flags(l.begun)), l.floor...)
	}
	return [2]uint64{maphash.Bytes(e.seeds[0], b), maphash.Bytes(e.seeds[1], b)}
}

func flags(set ...bool) (b byte) {
	for i, s := range set {
		if s {
			b |= 1 << i
		}
	}
	return b
}

// column is all that a world holds of one place.
func (w *world) column(b []byte, i int) []byte {
	n := &w.nodes[i]
	b = append(b, byte(n.run), byte(n.life), flags(n.lost, n.moved), byte(n.pointer), byte(n.savedPointer))
	b = n.place.append(b)
	b = n.saved.append(b)
	for k := range w.plays {
		p := &w.plays[k]
		b = p.round.promises[i].append(b)
		b = append(b, flags(p.round.taken>>i&1 == 1, p.acceptBy>>i&1 == 1, sentTo(p.accepts, i)))
		for _, m := range p.round.known {
			if m[0] == byte('A'+i) {
				b = append(append(b, m[1:]...), 0)
			}
		}
	}
	for _, l := range w.looks {
		if l.begun {
			b = l.answers[i].append(b)
		}
	}
	return b
}

func sentTo(to []Message, i int) bool {
	return slices.ContainsFunc(to, func(a Message) bool { return a.Place == i })
}

// tail is a name of a run or mark without the letter that tells which place it is.
func tail(s string) string {
	if s == "" {
		return s
	}
	return s[1:]
}

func (p Place) append(b []byte) []byte {
	b = append(append(b, tail(p.Run)...), 0)
	b = append(append(b, tail(p.Mark)...), 0)
	b = append(b, flags(p.Votes), byte(p.Promised.Round), byte(p.Accepted.Round))
	return append(append(b, p.Value...), 0)
}

func (a *Answer) append(b []byte) []byte {
	if a == nil {
		return append(b, 0xfe)
	}
	b = append(append(b, tail(a.Mark)...), 0)
	b = append(b, flags(a.OK, a.Votes), byte(a.Promised.Round), byte(a.Accepted.Round))
	return append(append(b, a.Value...), 0)
}

// All worlds of a few rounds and places: at most one chain of values is chosen, none is lost, and
// no read is older than what was chosen when it began.
func TestEveryInterleaving(t *testing.T) {
	for _, c := range []struct {
		name string
		rules
		size size
	}{
		{"three proposers", rules{proposers: 3}, small},
		{"three proposers, an answer is lost", rules{proposers: 3, deaf: 1}, middle},
		{"three proposers, a place forgets", rules{proposers: 3, forgets: 1}, middle},
		{"and comes back from a snapshot", rules{proposers: 3, forgets: 1, saves: 1}, large},
		{"a place comes back from a snapshot", rules{forgets: 1, saves: 1}, small},
		{"places forget in turn", rules{forgets: 2, saves: 1}, middle},
		{"places forget and restart", rules{forgets: 1, restarts: 1}, small},
		{"most restart, one forgets", rules{forgets: 1, restarts: 2, saves: 1}, large},
		{"all restart", rules{proposers: 1, rounds: 3, restarts: 3}, large},
		{"a new register", rules{rounds: 3, absent: true, bare: true}, small},
		{"two begin a new register", rules{rounds: 4, absent: true, bare: true}, middle},
		{"a new register, a place forgets", rules{rounds: 3, absent: true, bare: true, forgets: 1}, middle},
		{"an absent register", rules{absent: true}, small},
		{"three begin an absent register", rules{proposers: 3, absent: true}, middle},
		{"an absent register, a place forgets", rules{absent: true, forgets: 1, renews: 1}, small},
		{"an absent register, servers restart", rules{absent: true, restarts: 2, renews: 1}, middle},
		{"an absent register, a snapshot", rules{absent: true, forgets: 1, saves: 1, renews: 1}, middle},
		{"an absent register, a read", rules{absent: true, forgets: 1, reads: 1}, middle},
		{"an absent register, a read, a pointer renewed", rules{absent: true, forgets: 1, renews: 1, reads: 1}, large},
		{"an absent register, places forget in turn", rules{absent: true, forgets: 2, renews: 2}, large},
		{"three begin one, a place forgets", rules{proposers: 3, absent: true, forgets: 1, renews: 1}, large},
		{"pointers come late", rules{absent: true, bare: true, renews: 3}, small},
		{"late pointers, a place forgets", rules{absent: true, bare: true, unused: true, forgets: 1, renews: 3}, middle},
		{"pointers come late, three rounds", rules{rounds: 3, absent: true, bare: true, renews: 3}, large},
		{"pointers come late, servers restart", rules{absent: true, bare: true, restarts: 1, renews: 3}, middle},
		{"a place forgets, its pointer is renewed", rules{forgets: 1, renews: 1}, small},
		{"five places, an absent register", rules{places: 5, absent: true}, large},
		{"a read", rules{reads: 1}, small},
		{"a read, a place forgets", rules{reads: 1, forgets: 1}, middle},
		{"a read, a snapshot", rules{reads: 1, forgets: 1, saves: 1}, large},
		{"places move", rules{reads: 1, moves: true}, small},
		{"places move, a place forgets", rules{reads: 1, moves: true, forgets: 1}, middle},
		{"places move, a place comes back from a snapshot", rules{reads: 1, moves: true, forgets: 1, saves: 1}, large},
		{"places move, servers restart", rules{reads: 1, moves: true, restarts: 2}, middle},
		{"places move, one forgets, its pointer renewed", rules{reads: 1, moves: true, forgets: 1, renews: 1}, middle},
		{"places move, an absent register", rules{reads: 1, moves: true, absent: true, forgets: 1}, middle},
		{"five places", rules{places: 5}, small},
		{"one of five places forgets", rules{places: 5, forgets: 1}, middle},
		{"two of five places forget", rules{places: 5, forgets: 2}, large},
	} {
		if c.size == large && !*deep || c.size == middle && !extent.Full {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			states, trace, err := explore(newWorld(&c.rules), 40_000_000, nil)
			if err != nil {
				t.Fatalf("%v after %v", err, trace)
			}
			t.Logf("%d states", states)
		})
	}
}

// size is of how many worlds there are.
type size int

const (
	small  size = iota // a moment
	middle             // some seconds: with SHARDLIMIT_FULL=1, and without the race detector, which finds nothing here
	large              // only with -majority.deep
)
