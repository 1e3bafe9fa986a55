package telemetrytest

import (
	"errors"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A charge is a decision also where the limit's mode decides it.
func TestChargesAreCountedInEveryMode(t *testing.T) {
	p := newProbe(t, 1)
	for _, mode := range []shardlimit.Mode{shardlimit.Enforced, shardlimit.Off, shardlimit.Closed} {
		l := limiter(t, p.client, mode.String(), shardlimit.Limit{Permits: 9, Per: time.Hour, Mode: mode})
		_, err := l.Charge(t.Context(), 3)
		if errors.Is(err, shardlimit.ErrLimitClosed) != (mode == shardlimit.Closed) {
			t.Errorf("%v: %v", mode, err)
		}
	}
	for _, attributes := range []string{"limiter=enforced,outcome=allowed,source=redis",
		"limiter=off,outcome=allowed,source=local", "limiter=closed,outcome=error,source=local"} {
		if got := p.value(t, "ratelimit.decisions", "algorithm=sliding_log,"+attributes).value; got != 1 {
			t.Errorf("decisions{%s} is %v, want 1", attributes, got)
		}
	}
}
