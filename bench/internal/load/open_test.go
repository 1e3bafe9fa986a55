package load

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestOpenServesEveryArrivalOnceAndNoneEarly(t *testing.T) {
	var mu sync.Mutex
	var seen []int
	boom := errors.New("boom")
	s, err := Open(t.Context(), OpenPlan{Arrivals: Even(2000, 1000), For: 100 * time.Millisecond, Workers: 4},
		func(_ context.Context, d Due) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, d.Who)
			if early := time.Until(d.At); early > 0 || d.Worker < 0 || d.Worker >= 4 {
				t.Errorf("call %+v came %s early", d, early)
			}
			if d.Who%3 == 0 {
				return false, boom
			}
			return d.Who%3 == 1, nil
		})
	limittest.Must(t, err)
	slices.Sort(seen)
	n := int64(len(seen))
	if s.Decisions()+s.Failed != n || n+s.Unsent != 200 || s.Failed != (n+2)/3 || !errors.Is(s.Err, boom) {
		t.Errorf("%d served, %+v; want 200 in all, a third each", n, s)
	}
	for i, who := range seen {
		if who != i {
			t.Fatalf("not every arrival once: %v", seen)
		}
	}
}

// TestOpenCountsFromTheDueTime is what coordinated omission would fail: one slow
// call makes those behind it late, and they count from when they were due.
func TestOpenCountsFromTheDueTime(t *testing.T) {
	const stall = 30 * time.Millisecond
	first := true
	s, err := Open(t.Context(), OpenPlan{Arrivals: Even(1000, 1), For: 50 * time.Millisecond, Workers: 1},
		func(context.Context, Due) (bool, error) {
			if first {
				first = false
				<-time.After(stall) // the slow server, not the test, waits
			}
			return true, nil
		})
	limittest.Must(t, err)
	if late := s.Times.Percentile(60); late < 5*time.Millisecond && s.Unsent == 0 {
		t.Errorf("four of ten calls were later than %s only, behind one of %s", late, stall)
	}
}

// TestOpenDrops: what finds too many calls under way is not made, what ends late does not count.
func TestOpenDrops(t *testing.T) {
	const most, span = 5, 60 * time.Millisecond
	var made, under, worst atomic.Int64
	boom := errors.New("boom")
	s, err := Open(t.Context(), OpenPlan{Arrivals: Even(1000, 2), For: span, Workers: most, Drop: true},
		func(_ context.Context, a Due) (bool, error) {
			n := under.Add(1)
			defer under.Add(-1)
			for old := worst.Load(); n > old && !worst.CompareAndSwap(old, n); old = worst.Load() {
			}
			switch k := made.Add(1); {
			case k > 10: // never ends in time
				<-time.After(span)
			case k == 3:
				return false, boom
			}
			return a.Who == 0, nil
		})
	if n := made.Load(); err != nil || n+s.Unsent != 60 || worst.Load() > most || n > 10+most {
		t.Errorf("%d made, %d under way, %+v, err %v; want 60 with the dropped ones", n, worst.Load(), s, err)
	}
	if n := s.Decisions() + s.Failed; n > 10 || s.Failed > 1 || s.Failed == 1 && !errors.Is(s.Err, boom) {
		t.Errorf("%d count, %+v; want at most 10", n, s)
	}
	var order []int
	arrivals, began := Even(1000, 1000), make(chan struct{})
	one := func() Arrival { // the third comes when the second has found the first under way
		a := arrivals()
		if a.Who == 2 {
			close(began)
		}
		return a
	}
	_, err = Open(t.Context(), OpenPlan{Arrivals: one, For: span, Workers: 1, Drop: true},
		func(_ context.Context, a Due) (bool, error) {
			if order = append(order, a.Who); len(order) == 1 {
				<-began
			}
			return true, nil
		})
	if err != nil || order[0] != 0 || len(order) > 1 && order[1] == 1 {
		t.Errorf("the second call is one that was due during the first: %v, err %v", order, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Open(ctx, OpenPlan{Arrivals: Even(100, 1), For: time.Hour, Workers: 1, Drop: true},
		func(context.Context, Due) (bool, error) { cancel(); return true, nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err %v, want canceled", err)
	}
}
