package clock

import (
	"context"
	"errors"
	"testing"
)

func TestEndedTellsCauseAndKind(t *testing.T) {
	boom := errors.New("boom")
	open, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if err := Ended(open); err != nil {
		t.Errorf("it has not ended: %v", err)
	}
	cancel(boom)
	plain, stop := context.WithCancel(t.Context())
	stop()
	late, end := context.WithTimeoutCause(t.Context(), 0, boom)
	defer end()
	<-late.Done()
	for name, c := range map[string]struct {
		ctx   context.Context
		wants []error
		text  string
	}{
		"with a cause":    {open, []error{boom, context.Canceled}, "boom"},
		"without":         {plain, []error{context.Canceled}, context.Canceled.Error()},
		"over, by a time": {late, []error{boom, context.DeadlineExceeded}, "boom"},
	} {
		err := Ended(c.ctx)
		for _, want := range c.wants {
			if !errors.Is(err, want) || err.Error() != c.text {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
	}
}
