package record

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

func places(t *testing.T, b *Book) *Places {
	t.Helper()
	p, err := b.Places(t.Context())
	must(t, err)
	return p
}

func TestAProcessBegins(t *testing.T) {
	for names, want := range map[string]int{"a": 1, "ab": 1, "abc": 3, "abcdefg": 3, "abcdefgh": 5} {
		synctest.Test(t, func(t *testing.T) {
			w := newTown(t, names)
			b := w.process(t, names)
			p := places(t, b)
			if len(p.Names) != want || p.Generation < time.Now().Add(-time.Second).UnixMilli() {
				t.Errorf("of %s: %+v", names, p)
			}
			if got := strings.Join(w.pointers(), ""); got != names {
				t.Errorf("%q of %q know", got, names)
			}
			write(t, limit(b), "v")
			later := w.process(t, names)
			if got := read(t, limit(later)); got.Value != "v" || places(t, later).id() != p.id() {
				t.Errorf("another process: %+v at %+v", got, places(t, later))
			}
		})
	}
}

// However many begin at once, and whatever is lost meanwhile, all end at the same places.
func TestProcessesThatBeginAtOnce(t *testing.T) {
	for _, lists := range [][]string{{"abc", "abc"}, {"abc", "bcd", "cba"}, {"a", "ab"}, {"abcdefgh", "fghabc"}} {
		for _, lossy := range []int64{0, 30} {
			for range extent.Some(20) {
				synctest.Test(t, func(t *testing.T) { beginAtOnce(t, lists, lossy) })
			}
		}
	}
}

func beginAtOnce(t *testing.T, lists []string, lossy int64) {
	w := newTown(t, "abcdefgh")
	for _, p := range w {
		if lists[0] == lists[1] { // else a majority of one list need not meet that of another
			p.lossy.Store(lossy)
		}
	}
	books := make([]*Book, len(lists))
	var wg sync.WaitGroup
	for i, list := range lists {
		books[i] = w.process(t, list)
		wg.Go(func() {
			for range 20 {
				if _, err := books[i].Places(t.Context()); err == nil {
					return
				}
				time.Sleep(failPause)
			}
			t.Error("it has not begun")
		})
	}
	wg.Wait()
	for i, b := range books[1:] {
		if a, b := books[0].Known(), b.Known(); a.Generation == 0 || a.id() != b.id() {
			t.Errorf("%v: %+v, but %+v of %s", lists, a, b, lists[i+1])
		}
	}
}

// told reports whether an error is that too few nodes answered, and names just these.
func told(err error, nodes ...string) bool {
	for _, name := range []string{"a", "b", "c"} {
		if strings.Contains(err.Error(), "node "+name+":") != slices.Contains(nodes, name) {
			return false
		}
	}
	return errors.Is(err, ErrNoMajority)
}

// Where fewer than half of the nodes answer, nothing begins, and the error names them.
func TestFewerThanHalfAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "abc")
		w["a"].down.Store(true)
		w["c"].down.Store(true)
		b := w.process(t, "abc")
		if _, err := b.Places(t.Context()); !told(err, "a", "c") || len(w.pointers()) > 0 {
			t.Errorf("%v; %v", err, w.content())
		}
		w["c"].down.Store(false)
		time.Sleep(5 * time.Second)
		write(t, limit(b), "v")
		w["c"].down.Store(true)
		time.Sleep(time.Second)
		if _, err := look(t, limit(b), false); !told(err, "a", "c") {
			t.Errorf("a read: %v", err)
		}
		_, err := limit(b).Change(t.Context(), func(Reading) (string, error) { return "w", nil })
		if !errors.Is(err, ErrNoMajority) || !strings.Contains(err.Error(), "node a:") {
			t.Errorf("a change: %v", err)
		}
	})
}

// What is not ours in place of a pointer or of a place is told where it counts, and left alone.
func TestForeignValues(t *testing.T) {
	for _, foreign := range [][]string{
		{"SET", "x"}, {"HSET", "x", "y"}, {"SET", "run {}"}, {"SET", `run {"generation":1}`},
	} {
		inTown(t, "abc", func(t *testing.T, w town, b *Book) {
			pointer := "{" + shard.Tag(HomeSlot) + "}:p"
			put := func(name, key string) {
				w[name].Do([]string{"DEL", key})
				w[name].Do(append([]string{foreign[0], key}, foreign[1:]...))
			}
			key := limit(b).mustSit(t).ref.Place
			put("a", pointer)
			put("b", key)
			if got := read(t, limit(b)); got.Value != "v" {
				t.Errorf("%+v", got)
			}
			if got := read(t, limit(w.process(t, "abc"))); got.Value != "v" {
				t.Errorf("another process: %+v", got)
			}
			before := w.content()["b "+key]
			w["c"].down.Store(true) // that it comes back would do
			time.Sleep(time.Second)
			if _, err := look(t, limit(b), false); !told(err, "b", "c") || errors.Is(err, script.ErrForeignState) {
				t.Errorf("one is foreign, one is down: %v", err)
			}
			w["c"].down.Store(false)
			time.Sleep(2 * time.Second)
			put("c", key)
			_, err := look(t, limit(b), false)
			if !errors.Is(err, ErrNoMajority) || !errors.Is(err, script.ErrForeignState) {
				t.Errorf("%q: %v", foreign, err)
			}
			if after := w.content()["b "+key]; after != before {
				t.Errorf("%v became %v", before, after)
			}
			put("b", pointer)
			if _, err := w.process(t, "abc").Places(t.Context()); err != nil {
				t.Errorf("one node knows: %v", err)
			}
			put("c", pointer)
			if _, err := w.process(t, "abc").Places(t.Context()); !errors.Is(err, ErrNoMajority) {
				t.Errorf("no node knows: %v", err)
			}
		})
	}
}

func (r *Record) mustSit(t *testing.T) *group {
	t.Helper()
	return r.current(places(t, r.book))
}

// A place that was started again empty is no vote until it was restored. It votes for records that
// never were when it has been up for a minute.
func TestAPlaceThatWasStartedAgain(t *testing.T) {
	inTown(t, "abc", func(t *testing.T, w town, b *Book) {
		r := limit(b)
		w["a"].Restart()
		if got := read(t, r); got.Value != "v" {
			t.Errorf("%+v", got)
		}
		if _, err := look(t, r, true); !errors.Is(err, ErrBlank) {
			t.Errorf("a whole read: %v", err)
		}
		write(t, r, "v") // restores it
		if _, err := look(t, r, true); err != nil {
			t.Errorf("a whole read: %v", err)
		}
		w["b"].down.Store(true)
		if got := read(t, limit(w.process(t, "abc"))); got.Value != "v" {
			t.Errorf("%+v", got)
		}
		// No majority says that there is no other record: a knows nothing of that.
		if got, err := look(t, b.New("other", nil, nil, nil), false); !errors.Is(err, ErrUnsettled) {
			t.Errorf("%+v, %v", got, err)
		}
		w["b"].down.Store(false)
		for range 3 {
			if slices.Contains(w.pointers(), "a") {
				t.Error("it votes too early")
			}
			time.Sleep(restoredAfter / 2)
			places(t, b)
		}
		time.Sleep(lookEvery)
		places(t, b)
		time.Sleep(time.Second)
		if !slices.Contains(w.pointers(), "a") {
			t.Error("it does not vote")
		}
	})
}

// All servers forgot everything, and a process begins before those that live on have looked: all
// end at the same places.
func TestAProcessBeginsWhereEverythingWasForgotten(t *testing.T) {
	for range extent.Some(60) {
		inTown(t, "abc", func(t *testing.T, w town, one *Book) {
			for _, p := range w {
				p.Flush()
			}
			two := w.process(t, "abc")
			var wg sync.WaitGroup
			for i, b := range []*Book{one, two} {
				wg.Go(func() {
					time.Sleep(rand.N(3 * time.Millisecond))
					if err := add(t.Context(), limit(b), fmt.Sprint(i)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if got := read(t, limit(two)); len(got.Value) != len(",1,0") || one.Known().id() != two.Known().id() {
				t.Errorf("%q at %+v and %+v", got.Value, one.Known(), two.Known())
			}
		})
	}
}

// A place that forgot is restored although it answers after the others. It is told where the
// records are by who has seen for long enough that it forgot: until then one may not be restored.
func TestABlankPlaceFarAwayIsRestored(t *testing.T) {
	inTown(t, "abc", func(t *testing.T, w town, b *Book) {
		w["a"].far.Store(int64(30 * time.Millisecond))
		w["a"].Flush()
		r := limit(b)
		if _, err := look(t, r, true); !errors.Is(err, ErrBlank) {
			t.Fatal(err)
		}
		write(t, r, "v")
		if _, err := look(t, r, true); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * restoredAfter) // its server runs for long
		for i := range restoredAfter/lookEvery + 2 {
			if i < restoredAfter/lookEvery && slices.Contains(w.pointers(), "a") {
				t.Error("it hears where the records are at once")
			}
			places(t, w.process(t, "abc"))
			places(t, b)
			time.Sleep(lookEvery)
		}
		if !slices.Contains(w.pointers(), "a") {
			t.Error("it does not hear where the records are")
		}
	})
}

// Where those that answer first have forgotten, who is farther away is heard before records begin
// anew, and before a place that forgot is told anything.
func TestWhoIsFarAwayMayKnow(t *testing.T) {
	inTown(t, "abc", func(t *testing.T, w town, old *Book) {
		time.Sleep(2 * restoredAfter) // the servers run for long
		w["c"].far.Store(int64(30 * time.Millisecond))
		w["a"].Flush()
		w["b"].Flush()
		for name, b := range map[string]*Book{"new": w.process(t, "abc"), "old": old} {
			must(t, b.Ask(t.Context(), false))
			if got, err := look(t, limit(b), false); err == nil && got.Value != "v" {
				t.Errorf("%s: it finds %+v", name, got)
			}
		}
	})
}

// nodesOf are nodes of one letter each.
func nodesOf(names string) (nodes []shard.Node) {
	for _, name := range strings.Split(names, "") {
		nodes = append(nodes, shard.Node{Name: name, Weight: 1})
	}
	return nodes
}

// without are such nodes, but one.
func without(names, name string) []shard.Node { return nodesOf(strings.ReplaceAll(names, name, "")) }

// Records move while others read, change and declare them. No change that was made is missing
// later.
func TestRecordsMoveUnderWay(t *testing.T) {
	for range extent.Some(40) {
		synctest.Test(t, moveUnderWay)
	}
}

func moveUnderWay(t *testing.T) {
	const processes, records = 4, 6
	w := newTown(t, "abcde")
	moving := []string{"abcde", "abde", "acd", "bcde"}
	for _, p := range w {
		p.late.Store(int64(8 * time.Millisecond))
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := map[string][]string{} // by record
	for i := range processes {
		b := w.process(t, "abcde")
		for k := range records {
			name := fmt.Sprint("limit:", k)
			r := b.New(name, nil, nil, nil)
			wg.Go(func() {
				time.Sleep(time.Duration(i*k) * 10 * time.Millisecond)
				for n := range 10 {
					text := fmt.Sprint(i, ".", n)
					if err := add(t.Context(), r, text); err == nil {
						mu.Lock()
						done[name] = append(done[name], text)
						mu.Unlock()
					}
					_ = r.Read(t.Context(), true, n%2 == 0, func(Reading) error { return nil })
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		if i < 2 {
			wg.Go(func() {
				for k := range 4 {
					_ = b.Move(t.Context(), nodesOf(moving[(i+k)%len(moving)]))
					time.Sleep(25 * time.Millisecond)
				}
			})
		}
	}
	wg.Wait()
	b := w.process(t, "abcde")
	for k := range records {
		name := fmt.Sprint("limit:", k)
		last := found(t, b.New(name, nil, nil, nil))
		has := strings.Split(last.Value, ",")
		if len(done[name]) < processes*5 {
			t.Errorf("only %d changes of %s were made", len(done[name]), name)
		}
		for _, text := range done[name] {
			if !slices.Contains(has, text) {
				t.Errorf("%s: %s is missing in %q at %+v", name, text, last.Value, b.Known())
			}
		}
	}
}

// A mover that crashed after one place had accepted which ones follow, or all had, or after it had
// copied some records, leaves nothing undone: others finish the move.
func TestAMoverThatCrashed(t *testing.T) {
	for _, after := range []string{"one place", "the choice", "a copy", "all copies"} {
		inTown(t, "abcd", func(t *testing.T, w town, b *Book) {
			write(t, b.New("nodes", nil, nil, nil), "in")
			from := places(t, b)
			mover, others, late := w.process(t, "abcd"), w.process(t, "abcd"), w.process(t, "abcd")
			places(t, mover)
			rest := without("abcd", from.Names[0])
			next := &Places{Generation: from.Generation + 1, Names: choose("", from.Names, rest)}
			m := &move{mover, from, next}
			must(t, m.ready(t.Context()))
			r := mover.New(script.VoteSuccessor, func() time.Duration { return time.Hour }, nil, nil)
			at := r.groupAt(from, from.id())
			if after == "one place" {
				ballot := majority.Ballot{Round: 1, Proposer: 7}
				promised := r.voteAt(t.Context(), at, 0, script.VoteRequest{Kind: majority.Prepare, Ballot: ballot})
				r.voteAt(t.Context(), at, 0, script.VoteRequest{Kind: majority.Accept, Ballot: ballot,
					Mark: promised.Mark, Value: next.encode()})
				for i := range from.Names {
					got := limit(mover).voteAt(t.Context(), limit(mover).groupAt(from, from.id()), i,
						script.VoteRequest{Kind: majority.Read})
					if got.err != nil || got.Moved != (i == 0) {
						t.Fatalf("place %d: %+v", i, got)
					}
				}
				_, list := m.list(t.Context())
				_, _, kept := limit(mover).final(t.Context(), from, majority.Read)
				if !errors.Is(list, ErrNoMajority) || !errors.Is(kept, ErrNoMajority) {
					t.Errorf("what one place tells is final: %v, %v", list, kept)
				}
			} else if _, err := r.decide(t.Context(), at, next); err != nil {
				t.Fatal(err)
			}
			if after == "a copy" || after == "all copies" {
				records, err := m.list(t.Context())
				if err != nil || len(records) != 2 {
					t.Fatalf("%v, %v", records, err)
				}
				for _, r := range records[:map[string]int{"a copy": 1, "all copies": 2}[after]] {
					must(t, m.copy(t.Context(), r))
				}
			}
			began := time.Now()
			for others.Known().Generation <= from.Generation {
				if got := found(t, limit(others)); got.Value != "v" {
					t.Errorf("after %s: %+v at %+v", after, got, others.Known())
				}
				if time.Since(began) > 4*helpAfter {
					t.Fatalf("after %s nobody finishes the move", after)
				}
				time.Sleep(100 * time.Millisecond)
			}
			for _, b := range []*Book{b, late, w.process(t, "abcd")} {
				write(t, limit(b), "w")
				if got := read(t, b.New("nodes", nil, nil, nil)); got.Value != "in" {
					t.Errorf("after %s: %+v", after, got)
				}
			}
			// Another move is made after that one.
			must(t, b.Move(t.Context(), without("abcd", from.Names[1])))
			if got := read(t, limit(b)); got.Value != "w" || slices.Contains(b.Known().Names, from.Names[1]) {
				t.Errorf("after %s: %+v at %+v", after, got, b.Known())
			}
		})
	}
}

// After a place was replaced nobody needs the ones before: they may all stop, and of the ones now
// any one, for records that are there and for new ones. For how long a limit existed is still
// known: else a shard that was lost would be taken for one that never was.
func TestPlacesBeforeMayStop(t *testing.T) {
	for k, lists := range [][2]string{{"abc", "def"}, {"a", "abc"}, {"abc", "ad"}, {"abcdefgh", "cdefghij"}} {
		records := 20
		if k == 0 {
			records = 300 // more than a place lists at once
		}
		synctest.Test(t, func(t *testing.T) {
			w := newTown(t, "abcdefghij")
			b := w.process(t, lists[0])
			for i := range records {
				r := b.New(fmt.Sprint("limit:", i), func() time.Duration { return time.Hour }, nil, nil)
				must(t, add(t.Context(), r, "v"))
			}
			before := places(t, b)
			time.Sleep(time.Hour / 2)
			all := w.process(t, "abcdefghij")
			places(t, all)
			must(t, all.Move(t.Context(), nodesOf(lists[1])))
			now := places(t, all)
			for _, name := range before.Names {
				w[name].down.Store(!slices.Contains(now.Names, name))
			}
			if len(now.Names) > 1 {
				w[now.Names[len(now.Names)-1]].down.Store(true)
			}
			for _, b := range []*Book{all, w.process(t, "abcdefghij")} {
				if got := read(t, b.New("limit:17", nil, nil, nil)); got.Value != ",v" || got.Known < time.Hour/2 {
					t.Errorf("%v: %+v", lists, got)
				}
				write(t, b.New(fmt.Sprint("limit:new", chance.Uint64()), nil, nil, nil), "v")
			}
		})
	}
}

func TestChosenPlaces(t *testing.T) {
	all := nodesOf("abcdefghijkl")
	for n := 1; n <= len(all); n++ {
		names := choose("p:", nil, all[:n])
		if !slices.IsSorted(names) {
			t.Errorf("%q of %d nodes", names, n)
		}
		again := choose("p:", names, all)
		if slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(again, name) }) {
			t.Errorf("%q became %q", names, again)
		}
	}
	if a, b := choose("p:", nil, all), choose("q:", nil, all); slices.Equal(a, b) {
		t.Errorf("all prefixes have their records at %q", a)
	}
	ab, aAndB := Places{Generation: 1, Names: []string{"a1:b"}}, Places{Generation: 1, Names: []string{"a", "b"}}
	if ab.id() == aAndB.id() {
		t.Error("two lists of places have one id")
	}
}

// A move that cannot reach a majority of the next places does not begin.
func TestAMoveThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, "abcdef")
		b := w.process(t, "abc")
		write(t, limit(b), "v")
		all := w.process(t, "abcdef")
		at := places(t, all)
		w["d"].down.Store(true)
		w["e"].down.Store(true)
		if err := all.Move(t.Context(), nodesOf("def")); !errors.Is(err, ErrNoMajority) ||
			!strings.Contains(err.Error(), "node d:") {
			t.Errorf("%v", err)
		}
		write(t, limit(b), "w")
		if all.Known() != at {
			t.Errorf("%+v", all.Known())
		}
	})
}
