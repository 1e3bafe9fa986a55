package call

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// lineOfOne is a line that notes when it is woken.
type lineOfOne struct {
	name  string
	woken *[]string
}

func (l *lineOfOne) Wake(bool) { *l.woken = append(*l.woken, l.name) }
func (l *lineOfOne) Len() int  { return 1 }

// Permits that are given back wake only the lines in which callers wait, in their order. So the
// cost does not grow with the participants that a proxy calls for.
func TestOnlyLinesAreWokenInWhichSomebodyWaits(t *testing.T) {
	c := &Target{}
	c.Init(&limit.Process{Clock: clock.Clock{Base: time.Now()}}, c, "", "", limit.Limit{Permits: 1, Per: time.Minute})
	c.Members.own = &c.member
	for i := range 5000 {
		c.Members.of(limit.NewParticipant(fmt.Sprint("customer ", i), 1))
	}
	if allocs := testing.AllocsPerRun(10, func() { c.Members.Wake(false) }); allocs > 1 {
		t.Errorf("nobody waits, and waking them takes %v allocations", allocs)
	}
	var woken []string
	lines := make([]*lineOfOne, 3)
	for i := range lines {
		lines[i] = &lineOfOne{fmt.Sprint(i), &woken}
		c.Members.Waits(lines[i])
	}
	c.Members.Ends(lines[1])
	c.Members.Wake(true)
	if !slices.Equal(woken, []string{"0", "2"}) {
		t.Errorf("woken are %v", woken)
	}
}
