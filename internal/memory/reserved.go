package memory

import (
	"cmp"
	"slices"
	"sync"
)

// MostReserved bounds how many reservations of a limit are outstanding.
const MostReserved = 4096

// Reserved is what a process has reserved of a limit and is not due yet. It is safe for concurrent
// use.
type Reserved[K comparable] struct {
	mu    sync.Mutex
	ahead []dated[K] // in order of when they are due
	sum   int64
}

// dated is n permits that are due at a time.
type dated[K comparable] struct {
	key    K
	due, n int64
}

// Room reports whether n more permits may be reserved, if all together may be so many. One
// reservation may be of any size.
func (o *Reserved[K]) Room(now, n, most int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweep(now)
	return len(o.ahead) == 0 || o.sum+n <= most && len(o.ahead) < MostReserved
}

// Sum is how many permits are not due yet.
func (o *Reserved[K]) Sum(now int64) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweep(now)
	return o.sum
}

// Add notes n permits that are due then.
func (o *Reserved[K]) Add(k K, due, n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i, _ := slices.BinarySearchFunc(o.ahead, due+1, byDue)
	o.ahead = slices.Insert(o.ahead, i, dated[K]{k, due, n})
	o.sum += n
}

// Remove forgets permits that were cancelled.
func (o *Reserved[K]) Remove(k K) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.IndexFunc(o.ahead, func(d dated[K]) bool { return d.key == k }); i >= 0 {
		o.sum -= o.ahead[i].n
		o.ahead = slices.Delete(o.ahead, i, i+1)
	}
}

// sweep forgets what is due. o.mu is held.
func (o *Reserved[K]) sweep(now int64) {
	i, _ := slices.BinarySearchFunc(o.ahead, now+1, byDue)
	for _, d := range o.ahead[:i] {
		o.sum -= d.n
	}
	o.ahead = slices.Delete(o.ahead, 0, i)
}

func byDue[K comparable](d dated[K], due int64) int { return cmp.Compare(d.due, due) }
