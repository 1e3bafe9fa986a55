package load

import (
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
// seed. Each is by a client chosen at random, so that every client's arrivals are random too.
func Poisson(rate float64, clients int, seed uint64) Arrivals {
	random := rand.New(rand.NewPCG(seed, 0))
	var at float64 // seconds
	return func() Arrival {
		at += random.ExpFloat64() / rate
		return Arrival{At: time.Duration(at * float64(time.Second)), Who: random.IntN(clients)}
	}
}
