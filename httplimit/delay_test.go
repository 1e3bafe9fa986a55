package httplimit_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

func queueOf(t *testing.T, connect func() *shardlimit.Client) *shardlimit.Limiter {
	t.Helper()
	return declared(t, connect(), "l", shardlimit.Limit{Algorithm: shardlimit.LeakyBucket,
		Permits: 6, Per: time.Minute, Burst: 2})
}

// A client that leaves before its turn uses nothing up, and its answer tells nothing of the limit.
func TestWhoLeavesBeforeItsTurnUsesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, connect func() *shardlimit.Client) {
		l := queueOf(t, connect)
		for what, limiter := range map[string]httplimit.Limiter{"a limit": l,
			"policies": httplimit.All(httplimit.Policy{Name: "l", Limiter: l})} {
			served := 0
			h := httplimit.New(httplimit.One(limiter), httplimit.Options{})(http.HandlerFunc(
				func(http.ResponseWriter, *http.Request) { served++ }))
			get(h)
			for range 5 { // more than the queue holds
				ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
				w := get(h, func(r *http.Request) { *r = *r.WithContext(ctx) })
				leave()
				if w.Code != http.StatusServiceUnavailable {
					t.Errorf("%s: the answer is %d", what, w.Code)
				}
				has(t, w.Header(), what, nil)
			}
			if st, err := l.Peek(t.Context()); err != nil || st.Used > 1 || served != 1 {
				t.Errorf("%s: %d used, %d served, %v", what, st.Used, served, err)
			}
			time.Sleep(time.Minute)
		}
	})
}

// Who has waited for its turn is told what is left from then on.
func TestTheTimesAreThoseAfterTheTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, connect func() *shardlimit.Client) {
		h := httplimit.New(httplimit.One(queueOf(t, connect)), httplimit.Options{})(ok)
		get(h)
		began := time.Now()
		got := get(h)
		if waited := time.Since(began).Round(time.Second); waited != 10*time.Second {
			t.Fatalf("the turn came after %s", waited)
		}
		has(t, got.Header(), "after the turn", map[string]string{"RateLimit": `"default";r=0;t=0`,
			"RateLimit-Policy": `"default";q=6;w=60`})
	})
}

// stuck is a Limiter whose Settle does not return by itself.
type stuck struct{ says }

func (*stuck) Settle(ctx context.Context, _ shardlimit.Decision, _ int64) error {
	<-ctx.Done()
	return ctx.Err()
}

// A Settle that hangs does not keep the answer to a client that has left.
func TestASettleThatHangsIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, _ func() *shardlimit.Client) {
		l := &stuck{says{d: shardlimit.Decision{Allowed: true, Granted: 1, Delay: time.Hour}}}
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		began := time.Now()
		get(httplimit.New(httplimit.One(l), httplimit.Options{})(ok),
			func(r *http.Request) { *r = *r.WithContext(ctx) })
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the answer came after %s", took)
		}
	})
}
