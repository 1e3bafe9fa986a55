package load

import (
	"math"
	"math/rand/v2"
	"time"
)

// Arrival is one call of an open loop.
type Arrival struct {
	At  time.Duration // since the loop began; never before that of the one before
	Who int           // the client that makes it
}

// Arrivals yields one arrival after the other, without end. It is for one goroutine.
type Arrivals func() Arrival

// Even yields rate arrivals a second at equal distances, by the clients in turn.
func Even(rate float64, clients int) Arrivals {
	n := 0
	return func() Arrival {
		a := Arrival{At: time.Duration(float64(n) / rate * float64(time.Second)), Who: n % clients}
		n++
		return a
	}
}

// Poisson yields rate arrivals a second at random, the same ones for the same
// seed. Each is by a client chosen at random with the given weights, so that
// every client's arrivals are random too.
func Poisson(rate float64, weights []float64, seed uint64) Arrivals {
	random := rand.New(rand.NewPCG(seed, 0))
	bounds, sum := make([]float64, len(weights)), 0.0
	for i, w := range weights {
		sum += w
		bounds[i] = sum
	}
	var at float64 // seconds
	return func() Arrival {
		at += random.ExpFloat64() / rate
		x, who := random.Float64()*sum, 0
		for who < len(bounds)-1 && x >= bounds[who] {
			who++
		}
		return Arrival{At: time.Duration(at * float64(time.Second)), Who: who}
	}
}

// Zipf returns n weights that fall with the power of the rank: 1, 1/2^s, 1/3^s
// and so on. With s = 0 they are equal.
func Zipf(n int, s float64) []float64 {
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -s)
	}
	return weights
}
