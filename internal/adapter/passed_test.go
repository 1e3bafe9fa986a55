package adapter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/adapter"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// key is of an adapter, and between of something else that is put into a context.
type (
	key     struct{}
	between struct{}
)

// pass has a request that costs 1 pass a limiter.
func pass(ctx context.Context, l adapter.Limiter) (*adapter.Passed, error) {
	return adapter.Pass(ctx, key{}, l, 1)
}

// A request that ends before its turn gives back what it took.
func TestWhoLeavesBeforeItsTurnUsesNothing(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, shardlimit.Limit{Algorithm: shardlimit.LeakyBucket, Permits: 6, Per: time.Minute, Burst: 2})
		limittest.Must(t, limittest.Err(pass(t.Context(), l)))
		for range 5 { // more than the queue holds
			ctx, leave := context.WithCancelCause(t.Context())
			why := errors.New("it left")
			time.AfterFunc(100*time.Millisecond, func() { leave(why) })
			limittest.ErrorIs(t, limittest.Err(pass(ctx, l)), why)
		}
		limittest.Uses(t, l, 1)
		began := time.Now()
		limittest.Must(t, limittest.Err(pass(t.Context(), l)))
		if waited := time.Since(began); waited < 9*time.Second || waited > 10*time.Second {
			t.Errorf("the turn came after %s", waited)
		}
	})
}

// stuck is a Limiter whose Settle does not return by itself.
type stuck struct{ d shardlimit.Decision }

func (s stuck) AllowN(context.Context, int64) (shardlimit.Decision, error) { return s.d, nil }

func (stuck) Settle(ctx context.Context, _ shardlimit.Decision, _ int64) error {
	<-ctx.Done()
	return ctx.Err()
}

// A Settle that hangs does not keep the answer to a client that has left.
func TestASettleThatHangsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := pass(limittest.Shortly(t, time.Second),
			stuck{shardlimit.Decision{Allowed: true, Granted: 1, Delay: time.Hour}})
		if took := time.Since(began); took != 2*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// Settle works once, at every limit that the request passed, also if it has ended.
func TestSettleIsOfEveryLimitThatWasPassed(t *testing.T) {
	client := limittest.InProcess(t, 1).Client(t)
	ctx := t.Context()
	var limits []*shardlimit.Limiter
	for i, name := range []string{"outer", "inner"} {
		limits = append(limits, limittest.Limiter(t, client, name, shardlimit.PerHour(5+int64(i))))
		p, err := pass(ctx, limits[i])
		limittest.Must(t, err)
		ctx = context.WithValue(p, between{}, "kept")
	}
	if d, ok := adapter.DecisionOf(ctx, key{}); !ok || d.Limit != 6 || ctx.Value(between{}) == nil {
		t.Errorf("the decision is %+v, %v", d, ok)
	}
	limittest.Must(t, adapter.Settle(ctx, key{}, 3))
	for _, l := range limits {
		limittest.Uses(t, l, 3)
	}
	limittest.ErrorIs(t, adapter.Settle(ctx, key{}, 0), shardlimit.ErrSettled)
	if _, ok := adapter.DecisionOf(t.Context(), key{}); ok {
		t.Error("a decision where none was made")
	}
	limittest.Must(t, adapter.Settle(t.Context(), key{}, 0))
}
