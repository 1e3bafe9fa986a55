package striped

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// ledger notes which places of a stock were handed out, and how often.
type ledger []atomic.Int32

func (l ledger) add(p Pile) {
	for i := range p.N {
		l[p.Place+i].Add(1)
	}
}

// wrong is how many places were not handed out exactly once.
func (l ledger) wrong() (n int) {
	for i := range l {
		if l[i].Load() != 1 {
			n++
		}
	}
	return n
}

// Whoever takes and whoever closes, one at a time: each permit is handed out once or left over, a
// take succeeds if and only if some stripe has so many, and what is told to be left is near the
// truth.
func TestAStockIsWhatWasPutIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 20_000).Draw(t, "size")
		var s Stock
		s.Fill(size, rapid.IntRange(1, 8).Draw(t, "cores"))
		seen, left := make(ledger, size), size
		for _, n := range rapid.SliceOf(rapid.Int64Range(1, 3000)).Draw(t, "takes") {
			most := int64(0)
			for i := range s.stripes {
				most = max(most, s.stripes[i].left.Load())
			}
			place, told, ok := s.Take(n)
			if ok != (most >= n) {
				t.Fatalf("a stripe has %d, take of %d: %v", most, n, ok)
			}
			if !ok {
				continue
			}
			seen.add(Pile{place, n})
			left -= n
			if told > left || told <= left-tellEvery*int64(len(s.stripes)) || len(s.stripes) == 1 && told != left {
				t.Fatalf("%d are left, told %d, with %d stripes", left, told, len(s.stripes))
			}
		}
		if s.Sum() != left {
			t.Fatalf("%d are left, the sum is %d", left, s.Sum())
		}
		rest, first := s.Close()
		for _, p := range rest {
			seen.add(p)
		}
		if wrong := seen.wrong(); !first || wrong > 0 {
			t.Fatalf("closed for the first time: %v; %d of %d permits were lost or doubled", first, wrong, size)
		}
		if rest, first = s.Close(); first || rest != nil || s.Sum() != 0 {
			t.Fatalf("closed again: %v, %v, %d left", rest, first, s.Sum())
		}
		if _, _, ok := s.Take(1); ok {
			t.Fatal("a closed stock gave a permit")
		}
	})
}

// Many take until nothing is left, or until one of them closes the stock under the hands of the
// others.
func TestAStockLosesNothingUnderConcurrentTakes(t *testing.T) {
	const size = 8 * LeastStripe
	for round := range 150 {
		var s Stock
		s.Fill(size, 4)
		seen := make(ledger, size)
		var takers sync.WaitGroup
		var taken atomic.Int64
		for k := range 4 {
			takers.Go(func() {
				random := rand.New(rand.NewPCG(uint64(round), uint64(k)))
				for n := int64(1); ; n = 1 + random.Int64N(3) {
					place, _, ok := s.Take(n)
					switch {
					case !ok && n == 1:
						return
					case ok:
						seen.add(Pile{place, n})
						if taken.Add(n) > size/8 && round%3 > 0 {
							rest, _ := s.Close()
							for _, p := range rest {
								seen.add(p)
								taken.Add(p.N)
							}
						}
					}
				}
			})
		}
		takers.Wait()
		if wrong := seen.wrong(); wrong > 0 || taken.Load() != size {
			t.Fatalf("round %d: %d of %d permits were lost or doubled, %d were taken or left", round, wrong, size,
				taken.Load())
		}
	}
}

// As long as anything is left, and whoever else takes, one permit is to be had, and no permit
// twice.
func TestAStockRefusesNobodyWhileThereIsSome(t *testing.T) {
	const takers, each = 8, 4000
	for round := range 30 {
		var s Stock
		s.Fill(takers*each, 1+round%3*2) // not divided, and divided
		take := s.Take
		if round%3 == 2 { // all of them at the same stripe
			take = func(n int64) (int64, int64, bool) { return s.takeElsewhere(n, &everyHome[0]) }
		}
		var all sync.WaitGroup
		for range takers {
			all.Go(func() {
				for i := range each {
					if _, _, ok := take(1); !ok {
						t.Errorf("refused after %d of %d", i, each)
						return
					}
				}
			})
		}
		all.Wait()
		if left := s.Sum(); left != 0 {
			t.Fatalf("everything was taken, %d are left", left)
		}
	}
}

func TestASmallStockIsNotDivided(t *testing.T) {
	for size, stripes := range map[int64]int{1: 1, 2*LeastStripe - 1: 1, 2 * LeastStripe: 2, 4*LeastStripe - 1: 2,
		4 * LeastStripe: 4, 1e12: 8} {
		var s Stock
		s.Fill(size, 4)
		if len(s.stripes) != stripes {
			t.Errorf("%d permits have %d stripes, want %d", size, len(s.stripes), stripes)
		}
	}
	for cores, stripes := range map[int]int{1: 1, 2: 4, 3: 8, 4: 8, 5: 16, 32: 64, 1000: mostStripes} {
		if got := stripesFor(cores); got != stripes {
			t.Errorf("%d cores have %d stripes, want %d", cores, got, stripes)
		}
	}
}
