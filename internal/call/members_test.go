package call

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// However many participants a process calls for, it remembers a bounded number of them.
func TestABoundedNumberOfParticipantsIsRemembered(t *testing.T) {
	c := newTarget(&limit.Process{Clock: clock.Clock{Base: time.Now()}}, "l", "n:l", limit.Limit{})
	for i := range 40_000 {
		c.Members.of(limit.NewParticipant(fmt.Sprint("tenant ", i), 1))
	}
	if n := len(c.Members.others); n > 16_384 || n < 16_000 {
		t.Errorf("%d of 40,000 participants are remembered", n)
	}
}
