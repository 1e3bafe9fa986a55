package call

import (
	"context"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/forecast"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// outlook is what the shards of a limit have ahead of them, as one process
// heard it: any number of permits can be free together at a time that follows
// from it, and not before, unless some are given back.
type outlook struct {
	forecast.Outlook
	made     int64 // on the client's clock
	until    int64 // how long to believe it
	complete bool  // every shard that is taken to answer did
	why      telemetry.Reason
}

// Await returns how long it takes until n permits are free together. A process that has not
// seen all of the shards does not know, and looks again after a while.
func (o *outlook) Await(c *Target, r *limit.Routes, n int64) time.Duration {
	wait := time.Duration(o.when(n, r.Limit.Per) - o.made)
	if !o.complete {
		wait = min(wait, c.Process.Config.CallTimeout)
	}
	return wait
}

// Look asks all shards at once what they have free and ahead, on behalf of a call that began at
// since. The outlook is remembered, and refuses calls, only if every shard said it: what is not
// seen may be free.
func (c *Target) Look(ctx context.Context, r *limit.Routes, since int64) *outlook {
	o := &outlook{complete: true, why: telemetry.Full}
	now := c.Process.Now()
	left := c.Process.Config.CallTimeout - time.Duration(now-since)
	asked := slices.DeleteFunc(slices.Clone(r.Shards), func(sh *dispatch.Shard) bool { return !sh.Usable() })
	if left <= 0 && len(asked) > 0 {
		asked, o.complete = nil, false
	}
	answered := false
	for _, s := range dispatch.Look(ctx, asked, left) {
		if s.Err != nil {
			o.complete = false
			continue
		}
		answered = true
		o.include(r, &s)
	}
	o.Sort()
	o.made = c.Process.Now()
	o.until = o.made + int64(Believed(r))
	if o.complete = o.complete && answered; o.complete {
		c.ahead.Store(o)
	}
	return o
}

// include adds what one shard says to the outlook.
func (o *outlook) include(r *limit.Routes, found *dispatch.Sight) {
	reopens(found.Shard, &found.PeekReply, r.Layout)
	free := found.Free
	if found.Status == script.Absent && r.Layout.Settled {
		free = found.Shard.Most() // it begins with its share when it is first asked
	}
	switch {
	case found.Closed > 0:
		o.why = max(o.why, telemetry.LostMemory)
	case found.Used > max(found.Share, found.Shard.Room(&found.PeekReply)):
		o.why = max(o.why, telemetry.Owes)
	}
	o.Free += free
	o.Releases = append(o.Releases,
		forecast.Releases(free, &found.PeekReply, found.Received, found.Shard.Room(&found.PeekReply))...)
}

// when returns the time at which n permits are free together. Permits that no shard which answered
// has are on shards that are away: those take a window.
func (o *outlook) when(n int64, window time.Duration) int64 {
	if at, ok := o.When(n); ok {
		return at
	}
	return o.made + int64(window)
}
