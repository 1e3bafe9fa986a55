package promises

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Each process has a limit for itself.
func TestEachParticipantHasALimitForItself(t *testing.T) {
	f := limittest.Standalone(t)
	first := f.Limiter(t, limittest.PerParticipant(10, time.Hour))
	second := f.Limiter(t, shardlimit.PerHour(99)) // joins what is stored, with its scope
	if got := second.Limit(); got.Scope != shardlimit.PerParticipant || got.Permits != 10 {
		t.Fatalf("joined %v", got)
	}
	for i, l := range []*shardlimit.Limiter{first, second} {
		d := limittest.Served(t, l, 4)
		if d.Remaining != 6 || d.Limit != 10 || d.ResetAfter < time.Hour || d.ResetAfter > time.Hour+time.Millisecond {
			t.Errorf("process %d: %+v", i, d)
		}
		hasLeft(t, l, 6)
		st := limittest.Peek(t, l)
		if st.Used != 10 || st.Remaining != 0 || st.RetryAfter <= 0 || st.ResetAfter <= 0 || len(st.Shards) != 0 {
			t.Errorf("process %d: %+v", i, st)
		}
		limittest.ErrorIs(t, limittest.Err(l.AllowN(t.Context(), 11)), shardlimit.ErrExceedsLimit, "11 of 10")
		if list, err := l.Participants(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("process %d: %+v contend, %v", i, list, err)
		}
	}
	// Others for which a process calls have it for themselves, too, whatever weight they have, but
	// not the process once more.
	for _, name := range []string{"a", "b"} {
		hasLeft(t, first.As(name, 1), 10)
		hasLeft(t, first.As(name, 2), 0)
	}
	hasLeft(t, first.As(limittest.Participant(first), 2), 0)
	limittest.Must(t, first.Reset(t.Context()))
	hasLeft(t, first, 10)
	hasLeft(t, first.As("a", 1), 10)
	hasLeft(t, second, 0)
}

func TestPerParticipantDecisionsDoNotAskRedis(t *testing.T) {
	fl, posts := limittest.Proxied(t, 1)
	c := fl.Client(t)
	l := limittest.Limiter(t, c, "l", limittest.PerParticipant(1000, time.Hour))
	users := limittest.Family(t, c, "users", limittest.PerParticipant(3, time.Hour))
	posts[0].Proxy.Stall(true) // whoever asks would wait
	defer posts[0].Proxy.Stall(false)
	atMost := sends(&posts[0].Takes)
	for range 300 {
		d := limittest.MustGet(t, l, 3)
		limittest.Must(t, l.Settle(t.Context(), d, 0))
		limittest.Must(t, l.WaitN(t.Context(), 2))
		limittest.Must(t, limittest.Err(l.AllowUpTo(t.Context(), 1)))
	}
	limittest.Uses(t, l, 900)
	for i := range 20 {
		hasLeft(t, users.Limiter(fmt.Sprint(i)), 3)
	}
	atMost(t, 0)
}

func TestALimitForEachIsChangedEverywhere(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		a := f.Limiter(t, limittest.PerParticipant(10, time.Hour))
		b := f.Limiter(t, limittest.PerParticipant(10, time.Hour))
		limittest.MustGet(t, a, 8)
		limittest.MustGet(t, b, 8)
		change := func(to shardlimit.Limit) {
			t.Helper()
			limittest.Must(t, a.SetLimit(t.Context(), to))
			for range 16 { // decisions are what makes the other process look
				d, err := b.Allow(t.Context())
				limittest.Must(t, errors.Join(err, b.Settle(t.Context(), d, 0)))
				time.Sleep(time.Second)
			}
		}
		change(limittest.PerParticipant(20, time.Hour))
		hasLeft(t, a, 12)
		hasLeft(t, b, 12)
		change(limittest.PerParticipant(5, time.Hour))
		limittest.Uses(t, b, 20)
		hasLeft(t, b, 0)
	})
}

// Two busy processes have a limit each, and one of them makes it a limit for both. The other one
// hears of that within 15 s of use. Until then it has its old limit beside the new one; in every
// window that begins after that the two have the new one together.
func TestALimitForEachBecomesOneForAll(t *testing.T) {
	for _, after := range []time.Duration{time.Second, 7 * time.Second, 29 * time.Second} {
		limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
			const learns, slack = 15 * time.Second, 250 * time.Millisecond
			limit := shardlimit.PerSecond(20)
			a := f.Limiter(t, limittest.PerParticipant(20, time.Second))
			b := f.Limiter(t, limittest.PerParticipant(20, time.Second))
			busy := limittest.NewDemand(t, 15*time.Millisecond, a, b)
			time.Sleep(after)
			limittest.Must(t, a.SetLimit(t.Context(), limit))
			changed := busy.Now()
			time.Sleep(learns + 30*time.Second)
			ops := busy.Stop()
			if worst, ok := history.Check(limit.Per, 3*limit.Permits, ops); !ok {
				t.Errorf("more than the old limit of each and the new one: %+v", worst)
			}
			if _, ok := history.Check(limit.Per, limit.Permits, limittest.Since(changed, ops)); ok {
				t.Error("no window was over: the other process heard of the change at once")
			}
			later := limittest.Since(changed+int64(learns+slack), ops)
			limittest.KeepsTo(t, limit, later)
			if got := history.Total(later); got < 28*limit.Permits {
				t.Errorf("%d permits in the last half a minute", got)
			}
		})
	}
}
