package lane

import (
	"context"
	"testing"

	"github.com/shardlimit/shardlimit/script"
)

// replacedLimit is a limit whose layout becomes another one when it is confirmed.
type replacedLimit struct {
	quietLimit
	confirmed func()
}

func (l *replacedLimit) Confirm(context.Context) error {
	l.confirmed()
	return nil
}

// A call that is under way on a lane which others took the place of goes on under the terms of the
// last of them.
func TestACallOnAReplacedLaneGetsNewTerms(t *testing.T) {
	first := grounded(t)
	first.Terms.Store(&Terms{Epoch: 1})
	limit := &replacedLimit{}
	first.Limit = limit
	second := New(first.env, first.Way, &Terms{})
	second.Follows(first)
	third := New(first.env, first.Way, &Terms{})
	third.Follows(second)
	limit.confirmed = func() { third.Terms.Store(&Terms{Epoch: 2}) }
	var asked []int64
	err := first.present(t.Context(), nil, func(t *Terms) (script.Status, int64, error) {
		asked = append(asked, t.Epoch)
		if t.Epoch == 2 {
			return script.Fresh, 1, nil
		}
		return script.Absent, 1, nil
	})
	// The lane in between has no terms of a layout: its epoch is 0.
	if err != nil || len(asked) != 2 || asked[0] != 1 || asked[1] != 2 {
		t.Errorf("asked under the epochs %v: %v", asked, err)
	}
}
