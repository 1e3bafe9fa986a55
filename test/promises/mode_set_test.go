package promises

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A call passes a Set by what each of its limits says in its mode.
func TestModesInASet(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		strict := limittest.Limiter(t, c, "strict", shardlimit.PerHour(5))
		off := limittest.Limiter(t, c, "off", in(shardlimit.Off, shardlimit.PerHour(1)))
		watched := limittest.Limiter(t, c, "watched", in(shardlimit.Shadow, shardlimit.PerHour(1)))
		closed := limittest.Limiter(t, c, "closed", in(shardlimit.Closed, shardlimit.PerHour(9)))
		for i := range 2 {
			set := limittest.Set(2, strict, off, watched)
			d, err := set.Allow(t.Context())
			if err != nil || !d.Allowed || !d.Shadowed {
				t.Errorf("call %d: %+v, %v", i, d, err)
			}
			if err := set.Settle(t.Context(), d, 0, 0, 0); err != nil {
				t.Error(err)
			}
		}
		if d, err := limittest.Set(1, off, strict).Allow(t.Context()); err != nil || d.Limit != 5 || d.Remaining != 4 {
			t.Errorf("with one that is off: %+v, %v", d, err)
		}
		if d, err := limittest.Set(1, off).Allow(t.Context()); err != nil || !d.Allowed || d.Remaining != d.Limit ||
			d.Mode() != shardlimit.Off {
			t.Errorf("only one that is off: %+v, %v", d, err)
		}
		if d, err := limittest.Set(1, watched, off).Allow(t.Context()); err != nil || d.Limit != 1 || d.Remaining != 0 ||
			d.Mode() != shardlimit.Shadow {
			t.Errorf("only one in shadow and one that is off: %+v, %v", d, err)
		}
		set := limittest.Set(1, strict, off, watched)
		if d, err := set.Allow(t.Context()); err != nil || d.Limit != 5 || d.Remaining != 3 ||
			d.Mode() != shardlimit.Enforced || set.Each(d)[2].Mode() != shardlimit.Shadow {
			t.Errorf("with one in shadow: %+v, %v", d, err)
		} else if err := set.Settle(t.Context(), d, 0, 0, 0); err != nil {
			t.Error(err)
		}
		d, err := limittest.Set(1, strict, closed).Allow(t.Context())
		if err != nil || d.Allowed || d.RetryAfter != 15*time.Second || d.Mode() != shardlimit.Closed {
			t.Errorf("with a closed one: %+v, %v", d, err)
		}
		if used := limittest.Peek(t, strict).Used; used != 1 {
			t.Errorf("%d permits were not given back", used)
		}
	})
}

// A limit that is only watched neither delays those who wait for a Set nor is asked before the
// others, however much it lacks.
func TestAWatchedLimitHoldsUpNoSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, nodes := limittest.BubbledNodes(t, 2)
		f.Punctual = true
		c := f.Client(t)
		strict := limittest.Limiter(t, c, "strict", shardlimit.Limit{Permits: 2, Per: time.Minute, Shards: 1})
		watched := strict
		for i := 0; limittest.Peek(t, watched).Shards[0].Node == limittest.Peek(t, strict).Shards[0].Node; i++ {
			watched = limittest.Limiter(t, c, fmt.Sprint(i),
				in(shardlimit.Shadow, shardlimit.Limit{Permits: 1, Per: time.Hour,
					Shards: 1}))
		}
		set := limittest.Set(1, strict, watched)
		mustDecide(t, strict, 1, true, false)
		mustDecide(t, watched, 1, true, false)
		time.Sleep(time.Second) // nothing is under way any more
		for _, n := range nodes {
			n.Stuck.Store(int64(time.Millisecond))
		}
		began := time.Now()
		if d, err := set.Allow(t.Context()); err != nil || !d.Allowed || !d.Shadowed {
			t.Fatalf("%+v, %v", d, err)
		}
		if took := time.Since(began); took > 3*time.Millisecond/2 {
			t.Errorf("it took %v, of which a script call is a millisecond", took)
		}
		for i := range 2 { // the second is denied from memory
			d, err := set.Allow(t.Context())
			if err != nil || d.Allowed || d.RetryAfter > time.Minute {
				t.Errorf("denial %d: %+v, %v", i, d, err)
			}
			if each := set.Each(d); each[0].Allowed || !each[1].Allowed || each[1].RetryAfter != 0 {
				t.Errorf("denial %d: %+v", i, each)
			}
		}
		if err := set.Wait(limittest.Shortly(t, 2*time.Minute)); err != nil {
			t.Error(err)
		}
	})
}
