package striped

import (
	"runtime"
	"sync/atomic"
)

// Tally is a sum that many cores add to. While they do not meet it is one
// number, because there is a tally for each of many thousand keys; from then on
// it has stripes as well. Safe for concurrent use; the zero tally is empty.
type Tally struct {
	lone    atomic.Int64
	stripes atomic.Pointer[[]addend]
}

// addend is a stripe of a tally. A processor may fetch cache lines in pairs, so it takes two.
type addend struct {
	n atomic.Int64
	_ [120]byte
}

// Add adds n.
func (t *Tally) Add(n int64) {
	stripes := t.stripes.Load()
	if stripes == nil {
		if old := t.lone.Load(); t.lone.CompareAndSwap(old, old+n) {
			return
		}
		stripes = t.divide()
	}
	h := homes.Get().(*home)
	(*stripes)[int(*h)&(len(*stripes)-1)].n.Add(n)
	homes.Put(h)
}

// divide gives the tally its stripes, unless it has them already.
func (t *Tally) divide() *[]addend {
	stripes := make([]addend, stripesFor(runtime.GOMAXPROCS(0)))
	t.stripes.CompareAndSwap(nil, &stripes)
	return t.stripes.Load()
}

// Sum is what was added before the call, and perhaps some of what was added
// during it. It does not fall unless something below zero is added.
func (t *Tally) Sum() int64 {
	sum := t.lone.Load()
	if stripes := t.stripes.Load(); stripes != nil {
		for i := range *stripes {
			sum += (*stripes)[i].n.Load()
		}
	}
	return sum
}
