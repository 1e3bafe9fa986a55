package main

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/pace"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
)

func TestProgressLine(t *testing.T) {
	limit := rate.Rate{Permits: 5000, Per: time.Second}
	for _, c := range []struct {
		status pace.Status
		want   string
	}{
		{pace.Status{Phase: pace.WaitingForPermits, Lines: 123456, Waiting: 1024},
			"mails: 1,667/s of 5000/s, released 123,456, waiting 1,024"},
		{pace.Status{Phase: pace.WaitingForInput, Lines: 1},
			"mails: 1,667/s of 5000/s, released 1, waiting 0, waiting for input"},
		{pace.Status{Phase: pace.WaitingForOutput, Waiting: 2},
			"mails: 1,667/s of 5000/s, released 0, waiting 2, waiting for the reader of the output"},
	} {
		if got := progressLine("mails", c.status, 1666.7, limit); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}
