package dispatch

import (
	"context"
	"errors"
	"testing"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/script"
)

// What a call for several shards tells of the node is what the best of their answers tells: one
// that refuses them all is noted as one that refuses a call for one.
func TestTheVerdictOfAFlight(t *testing.T) {
	full, foreign := &script.RefusedError{Reason: "OOM command not allowed"}, &script.StateError{Key: "k"}
	silence := context.DeadlineExceeded
	for name, c := range map[string]struct {
		call error
		each []error
		want error
	}{
		"granted":               {nil, []error{nil, nil}, nil},
		"one was refused":       {nil, []error{full, nil}, nil},
		"all were refused":      {nil, []error{full, full}, full},
		"foreign and refused":   {nil, []error{full, foreign}, nil},
		"nobody was answered":   {nil, []error{silence, silence}, silence},
		"the call itself":       {silence, []error{nil, nil}, silence},
		"refused, and no reply": {nil, []error{silence, full}, full},
	} {
		l, f := &Lane{Way: &Way{}, Node: &node.Node{}}, &flight{}
		for _, err := range c.each {
			f.sections, f.asks = append(f.sections, &section{lane: l}), append(f.asks, script.Section{Err: err})
		}
		if got := f.verdict(l, c.call); !errors.Is(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
