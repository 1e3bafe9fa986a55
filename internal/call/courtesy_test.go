package call

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// A process that an outage let pass has nothing of the limit: after the outage it has its part.
func TestWhatAnOutageLetPassIsNoPartOfTheLimit(t *testing.T) {
	of := limit.Limit{Permits: 4, Per: time.Minute}
	c := &Target{}
	c.Init(&limit.Process{Clock: clock.Clock{Base: time.Now()}}, c, "", "", of)
	r, counts := &limit.Routes{Plan: &limit.Plan{Limit: of}}, &Courtesy{target: c}
	counts.Got(r, &Decision{Answer{Granted: 3, Degraded: true}, Origin{Target: c}})
	if counts.had != 0 || counts.full {
		t.Errorf("it has %d of the limit", counts.had)
	}
	counts.Got(r, &Decision{Answer{Granted: 2}, Origin{Target: c}})
	if counts.had != 2 {
		t.Errorf("it has %d of the limit, want 2", counts.had)
	}
}
