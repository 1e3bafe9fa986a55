package main

import (
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
)

const (
	finishWithin = 3 * time.Second        // how long allow waits for a change that was begun and left
	finishLook   = 100 * time.Millisecond // how often it asks meanwhile
)

// allowSettled asks for permits. A change whose process has died leaves capacity that no shard has,
// until another process lives long enough to give it out. So a call that is denied then waits for
// that, which this process does in the background, and asks again.
func allowSettled(ctx context.Context, con console, l *shardlimit.Limiter, n int64) (shardlimit.Decision, error) {
	ends := time.Now().Add(finishWithin)
	for once := false; ; {
		d, err := l.AllowN(ctx, n)
		if err != nil || d.Allowed || d.Mode() == shardlimit.Closed {
			return d, err
		}
		state, err := l.Peek(ctx)
		if err == nil && !once && !stranded(&state) && state.Remaining >= n {
			once = true // the change ended just now
			continue
		}
		if err != nil || !stranded(&state) {
			return d, nil //nolint:nilerr // the decision stands
		}
		if !time.Now().Before(ends) {
			_, _ = fmt.Fprintf(con.err, "shardlimit: a change of %[1]s is not finished; shardlimit rebalance %[1]s "+
				"finishes it\n", draw.Name(l.Name()))
			return d, nil
		}
		select {
		case <-time.After(finishLook):
		case <-ctx.Done():
			return d, nil
		}
	}
}

// stranded reports whether the shards that answer have less than the limit although all of them do.
// What is used stays with the shard that granted it, so a move that waits for permits to leave the
// window strands nothing.
func stranded(s *shardlimit.State) bool {
	if s.Settled {
		return false
	}
	var shares int64
	for _, sh := range s.Shards {
		if sh.Err != nil {
			return false
		}
		shares += sh.Share
	}
	return shares < s.Limit.Permits
}
