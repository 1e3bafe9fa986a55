package maxmin

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// level returns the water level of weighted max-min fairness as the fraction num/den: the capacity
// left by those whose demand lies below their weight × level, and the weight of all others, who
// share it. den is 0 where nobody has to be held back. The sums of demands and of weights must not
// overflow. O(n log n).
func level(capacity int64, claims []Claim) (num, den int64) {
	num, den, _ = waterLevel(capacity, byLevel(claims))
	return num, den
}

func TestPublishedExamples(t *testing.T) {
	for _, c := range []struct {
		capacity int64
		claims   []Claim
		want     []int64
	}{
		{120, []Claim{{1000, 1}, {50, 1}, {10, 1}}, []int64{60, 50, 10}},
		{100, []Claim{{20, 1}, {26, 1}, {40, 1}, {50, 1}}, []int64{20, 26, 27, 27}}, // Keshav's 2, 2.6, 4, 5 of 10
		// Keshav's weighted example: nothing is left, nobody else wants more
		{16, []Claim{{4, 5}, {2, 8}, {10, 1}, {4, 2}}, []int64{4, 2, 6, 4}},
		{7, []Claim{{100, 1}, {100, 2}, {100, 4}}, []int64{1, 2, 4}},
		{0, []Claim{{1, 1}}, []int64{0}},
		{-3, []Claim{{1, 1}}, []int64{0}},
		{5, []Claim{{-1, 1}, {9, -7}}, []int64{0, 5}},
		{math.MaxInt64, []Claim{{math.MaxInt64, math.MaxInt64}}, []int64{math.MaxInt64}},
		{10, nil, []int64{}},
	} {
		if got := Shares([]int64{}, c.capacity, c.claims); !slices.Equal(got, c.want) {
			t.Errorf("%d for %v: %v, want %v", c.capacity, c.claims, got, c.want)
		}
	}
	if num, den := level(120, []Claim{{1000, 1}, {50, 1}, {10, 1}}); num != 60 || den != 1 {
		t.Errorf("level %d/%d", num, den)
	}
	if _, den := level(120, []Claim{{60, 1}, {50, 1}, {10, 1}}); den != 0 {
		t.Error("a level where everybody can be satisfied")
	}
}

func drawClaims(t *rapid.T) (capacity int64, claims []Claim) {
	most := rapid.SampledFrom([]int64{3, 20, 1000, 1_000_000_000_000}).Draw(t, "scale")
	claims = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Claim {
		return Claim{Demand: rapid.Int64Range(0, most).Draw(t, "demand"),
			Weight: rapid.Int64Range(1, 1_000_000).Draw(t, "weight")}
	}), 0, 12).Draw(t, "claims")
	return rapid.Int64Range(0, 2*most).Draw(t, "capacity"), claims
}

func total(numbers []int64) (total int64) {
	for _, n := range numbers {
		total += n
	}
	return total
}

func checkShares(t *rapid.T) {
	capacity, claims := drawClaims(t)
	shares := Shares(nil, capacity, claims)
	wanted := int64(0)
	for i, c := range claims {
		wanted += c.Demand
		if shares[i] < 0 || shares[i] > c.Demand {
			t.Fatalf("%v gets %d", c, shares[i])
		}
	}
	if got := total(shares); got != min(capacity, wanted) {
		t.Fatalf("%d of %d are given for %d", got, capacity, wanted)
	}
	if len(claims) == 0 {
		return
	}
	order := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 1)).Perm(len(claims))
	shuffled := make([]Claim, len(claims))
	for i, j := range order {
		shuffled[i] = claims[j]
	}
	again := map[Claim][]int64{}
	for i, n := range Shares(nil, capacity, shuffled) {
		again[shuffled[i]] = append(again[shuffled[i]], n)
	}
	for i, c := range claims {
		at := slices.Index(again[c], shares[i])
		if at < 0 {
			t.Fatalf("in another order %v gets %v, not %d", c, again[c], shares[i])
		}
		again[c] = slices.Delete(again[c], at, at+1)
	}
}

func TestShares(t *testing.T) { rapid.Check(t, checkShares) }

func FuzzShares(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkShares)) }

func TestLevelBoundsShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, claims := drawClaims(t)
		num, den := level(capacity, claims)
		for i, share := range Shares(nil, capacity, claims) {
			c := claims[i]
			if den == 0 {
				if share != c.Demand {
					t.Fatalf("%v gets %d without a level", c, share)
				}
				continue
			}
			exact := min(float64(num)/float64(den)*float64(c.Weight), float64(c.Demand))
			if off := math.Abs(float64(share) - exact); off > 1+1e-9*exact {
				t.Fatalf("%v gets %d, level %v", c, share, exact)
			}
		}
	})
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		parts []float64
		want  float64
	}{{nil, 1}, {[]float64{0, 0}, 1}, {[]float64{3, 3, 3}, 1}, {[]float64{1, 0, 0, 0}, 0.25}} {
		if got := Jain(c.parts); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v", c.parts, got)
		}
	}
}
