package shardlimit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// A decision of several parts is refunded when as many refunds as may be remembered are of later
// decisions: all its parts are given back, once.
func TestAllPartsAreGivenBackAlthoughTheirTicketsAreForgottenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := miniredis.NewMiniRedis()
		redis.ClockTTL(true)
		c := joinedOn(t, redis, "other", PerHour(1)).client
		family, err := c.Family(t.Context(), "l", Limit{Permits: 40, Per: time.Hour, Shards: 4})
		if err != nil {
			t.Fatal(err)
		}
		l := family.Limiter("ann")
		d, err := l.AllowN(t.Context(), 35)
		if err != nil || !d.Allowed || len(d.parts()) < 2 {
			t.Fatalf("%+v, %v", d, err)
		}
		for i := range keyTickets {
			time.Sleep(time.Millisecond)
			later, err := l.Allow(t.Context())
			if err != nil || !later.Allowed {
				t.Fatalf("%d: %+v, %v", i, later, err)
			}
			if err := l.Refund(t.Context(), later); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Refund(t.Context(), d); err != nil {
			t.Error(err)
		}
		if st, err := l.Peek(t.Context()); err != nil || st.Used != 0 {
			t.Errorf("%d permits are still used, %v", st.Used, err)
		}
		if again, err := l.AllowN(t.Context(), 35); err != nil || !again.Allowed {
			t.Fatalf("%+v, %v", again, err)
		}
		if err := l.Refund(t.Context(), d); !errors.Is(err, ErrRefundTooOld) {
			t.Errorf("once more: %v", err)
		}
		if st, err := l.Peek(t.Context()); err != nil || st.Used != 35 {
			t.Errorf("%d permits are used, %v", st.Used, err)
		}
	})
}
