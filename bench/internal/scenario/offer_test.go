package scenario

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/internal/history"
)

func TestOffer(t *testing.T) {
	boom := errors.New("boom")
	always := func(context.Context) (bool, error) { return true, nil }
	never := func(context.Context) (bool, error) { return false, nil }
	fails := func(context.Context) (bool, error) { return false, boom }
	d := demand{rate: 3000, weights: []float64{1, 1, 1}, span: 20 * time.Millisecond, workers: 2}
	o, err := offer(t.Context(), d, []rival.Allow{always, never, fails})
	if err != nil {
		t.Fatal(err)
	}
	// Of 60 calls in turn, 20 each; on a machine that stalls some are not sent.
	if o.calls != 60 || history.Total(o.admitted)+o.failed+o.unsent < 40 || history.Total(o.admitted) > 20 ||
		o.failed > 20 || o.failed == 0 || !errors.Is(o.err, boom) {
		t.Errorf("%d calls, %d admitted, %d failed, err %v; want 60, 20, 20, boom", o.calls, len(o.admitted), o.failed,
			o.err)
	}
}

func TestDemand(t *testing.T) {
	d := demand{rate: 1000, weights: []float64{3, 1}, span: 10 * time.Millisecond}
	if rates := d.rates(); rates[0] != 750 || rates[1] != 250 {
		t.Errorf("rates %v, want 750 and 250", rates)
	}
	if got := d.instants(); len(got) != 10 || got[9] != 9*time.Millisecond {
		t.Errorf("even instants %v", got)
	}
	d.seed, d.span = 1, time.Second
	if a, b := d.instants(), d.instants(); len(a) < 800 || len(a) > 1200 || len(a) != len(b) || a[7] != b[7] {
		t.Errorf("%d and %d random instants, want about 1000, the same", len(a), len(b))
	}
}
