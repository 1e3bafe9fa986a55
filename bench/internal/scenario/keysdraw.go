package scenario

import "math/rand/v2"

const (
	zipfPower = 1.1
	zipfTable = 1 << 20 // draws that are made before: one costs as much as some decisions
)

// draws chooses keys at random, the same ones for the same seed.
type draws struct {
	keys  int
	seed  uint64
	table []uint32 // nil: every key is as probable
}

func newDraws(keys int, zipf bool, seed uint64) draws {
	d := draws{keys: keys, seed: seed}
	if zipf {
		z := rand.NewZipf(rand.New(rand.NewPCG(seed, 0)), zipfPower, 1, uint64(keys-1))
		d.table = make([]uint32, zipfTable)
		for i := range d.table {
			d.table[i] = uint32(z.Uint64())
		}
	}
	return d
}

// of returns what one of several callers draws, for one goroutine.
func (d draws) of(caller, callers int) func() int {
	if d.table != nil {
		at := caller * (len(d.table) / callers)
		return func() int {
			at = (at + 1) % len(d.table)
			return int(d.table[at])
		}
	}
	random := rand.New(rand.NewPCG(d.seed, uint64(caller)))
	return func() int { return random.IntN(d.keys) }
}
