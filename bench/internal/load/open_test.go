package load

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestEven(t *testing.T) {
	next := Even(1000, 3)
	for i := range 10 {
		want := Arrival{At: time.Duration(i) * time.Millisecond, Who: i % 3}
		if got := next(); got != want {
			t.Errorf("arrival %d is %v, want %v", i, got, want)
		}
	}
}

func TestPoisson(t *testing.T) {
	const n, rate, clients = 100_000, 1000.0, 2
	next, again, other := Poisson(rate, clients, 1), Poisson(rate, clients, 1), Poisson(rate, clients, 2)
	var last Arrival
	var counts [clients]int
	var squares float64
	differ := false
	for range n {
		a := next()
		if a.At < last.At {
			t.Fatalf("%v after %v", a.At, last.At)
		}
		if a != again() {
			t.Fatal("the same seed gave other arrivals")
		}
		differ = differ || a != other()
		gap := (a.At - last.At).Seconds() * rate
		squares += gap * gap
		counts[a.Who]++
		last = a
	}
	if !differ {
		t.Error("another seed gave the same arrivals")
	}
	if got := n / last.At.Seconds(); math.Abs(got-rate) > 0.02*rate {
		t.Errorf("%v a second, want %v", got, rate)
	}
	if got := squares / n; math.Abs(got-2) > 0.1 { // of exponential gaps; 1 of equal ones
		t.Errorf("mean square of the gaps %v, want 2", got)
	}
	if math.Abs(float64(counts[0])/n-0.5) > 0.01 {
		t.Errorf("clients' parts %v", counts)
	}
}

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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if late := s.Times.Percentiles(60)[0]; late < 5*time.Millisecond && s.Unsent == 0 {
		t.Errorf("four of ten calls were later than %s only, behind one of %s", late, stall)
	}
}

func TestOpenReportsTheBacklog(t *testing.T) {
	for name, arrivals := range map[string]Arrivals{"even": Even(1000, 1), "flood": Even(1e6, 1)} {
		const span = 50 * time.Millisecond
		counted := make(chan struct{}) // closed when the backlog is being counted
		n, closed := 0, false
		s, err := Open(t.Context(), OpenPlan{For: span, Workers: 2, Arrivals: func() Arrival {
			if n++; n > 3 && !closed { // two are under way, the third is in hand
				closed = true
				close(counted)
			}
			return arrivals()
		}}, func(context.Context, Due) (bool, error) { <-counted; return true, nil })
		if err != nil || s.Allowed != 2 || s.Unsent < 1 || name == "even" && s.Unsent != 48 {
			t.Errorf("%s: %+v, err %v; want 2 sent, 48 or at least 1 not", name, s, err)
		}
	}
}

func TestOpenStopsWithItsContext(t *testing.T) {
	for name, arrivals := range map[string]Arrivals{"waiting": Even(0.001, 1), "busy": Even(1e6, 1)} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Open(ctx, OpenPlan{Arrivals: arrivals, For: time.Hour, Workers: 2},
			func(ctx context.Context, _ Due) (bool, error) {
				cancel()
				<-ctx.Done()
				return true, nil
			})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: err = %v, want canceled", name, err)
		}
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
	_, err = Open(t.Context(), OpenPlan{Arrivals: Even(1000, 1000), For: span, Workers: 1, Drop: true},
		func(_ context.Context, a Due) (bool, error) {
			if order = append(order, a.Who); len(order) == 1 {
				<-time.After(span / 2)
			}
			return true, nil
		})
	if err != nil || len(order) > 1 && order[1] < int(span/4/time.Millisecond) {
		t.Errorf("the second call is one that was due during the first: %v, err %v", order, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Open(ctx, OpenPlan{Arrivals: Even(100, 1), For: time.Hour, Workers: 1, Drop: true},
		func(context.Context, Due) (bool, error) { cancel(); return true, nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err %v, want canceled", err)
	}
}

func TestMetronomeDoesNotWakeEarly(t *testing.T) {
	m, err := newMetronome()
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	for _, d := range []time.Duration{-1, 0, 50 * time.Microsecond, 2 * time.Millisecond} {
		began := time.Now()
		if err := m.sleep(d); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < d {
			t.Errorf("slept %s of %s", took, d)
		}
	}
}

func TestLatencies(t *testing.T) {
	l := NewLatencies()
	for i := range 1000 {
		l.Add(i, time.Duration(i+1)*time.Millisecond)
	}
	l.Add(0, -time.Second) // counts as the shortest
	if least := l.Percentiles(0)[0]; least > 100 {
		t.Errorf("the least is %s, want at most 100ns", least)
	}
	got := l.Percentiles(50, 99, 100)
	for i, want := range []time.Duration{500 * time.Millisecond, 990 * time.Millisecond, time.Second} {
		if diff := math.Abs(float64(got[i] - want)); diff > 0.005*float64(want)+1 {
			t.Errorf("percentile %d: %s, want about %s", i, got[i], want)
		}
	}
}
