package scenario

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/bench/internal/yardstick"
)

var size = Scenario{
	Name:  "size",
	Title: "cost of the script against the size of the limit",
	Takes: 75 * time.Second,
	Question: `Does a decision cost more when the limit is large, or its window long? Limits of one
shard each and with a full log: time in the script as the server counts it (INFO
commandstats), and memory of a limit's keys (MEMORY USAGE). Calls of ` + "`shardlimit`" + ` come in
pipelines of sixteen, each to another limit, and about as many a second whatever the
size: there are sixteen limits, or more where a limit is small. "granted" spreads
the calls over the window at 90 % of the limits; "denied" repeats them against
exhausted limits; "after half a window" and "after a whole window" are the first
calls that find half or all of a full log expired, sent to a server that has just
been kept busy with another limit. A take is of one permit up to 1000 permits a window, and of a larger part of them
above; a denied take of several permits has to search the log for its RetryAfter.

"Longest" is the longest single call of all these in a round, by SLOWLOG, which sees calls of 0.1 ms and
more. The server counts the time in which it lost its core, too: what the script needs is nearest to
the least of the rounds.

The two others keep an entry for every permit. ` + "`plain ZSET`" + ` is the script that is
usually written: a sorted set with a member for each permit, ZREMRANGEBYSCORE and ZCARD.
` + "`Redisson`" + ` is RRateLimiter. They are filled with one permit a call, as fast as they answer
("granted": while the log grows to 90 % of the limit), and "after a whole window" is a
single call to which the window has been made 1 ms short. Neither is tried with a larger limit once that
call has taken more than 50 ms.

Windows above a second are not waited for: the log of ` + "`shardlimit`" + ` is made by an embedded Redis
with a clock of its own and copied to the server, four fifths full, and "granted" are the calls of a
moment, which mostly join one entry. Redis keeps a copied log more compactly than one that has
once had more than 128 entries.`,
	Run: runSize,
}

const (
	sizeOurs     = "shardlimit"
	sizePlain    = "plain ZSET"
	sizeBound    = 50 * time.Millisecond // a rival that takes longer is not tried with more permits
	sizeWindowed = 1_000_000             // permits of the limits with other windows
)

// sizeWindows are the windows other than a second.
var sizeWindows = []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second,
	time.Minute, time.Hour}

// sizeRun is one run of the scenario.
type sizeRun struct {
	server  *server.Server
	client  rueidis.Client
	usual   time.Duration // window, where that is not what is varied
	windows []time.Duration
	rivals  []*sizeRival
	found   *findings
	result  *report.Result
}

func runSize(ctx context.Context, env Env, result *report.Result) error {
	run := &sizeRun{usual: env.span(time.Second, time.Second), windows: sizeWindows, found: newFindings(),
		result: result}
	exponents := []int{2, 3, 4, 5, 6, 7}
	if env.Smoke {
		exponents, run.windows = []int{2, 7}, []time.Duration{10 * time.Millisecond, time.Hour}
	}
	rounds := env.rounds(2)
	result.Views = sizeViews(run.windows)
	setting(result, "Limit", "100 to 10 000 000 permits per %s; %d permits per %s to %s", run.usual, sizeWindowed,
		run.windows[0], run.windows[len(run.windows)-1])
	setting(result, "Rounds", "%d", rounds)

	var err error
	if run.server, err = env.start(ctx, result); err != nil {
		return err
	}
	defer run.server.Close()
	if run.client, err = rueidis.NewClient(server.Option(run.server.Addr())); err != nil {
		return err
	}
	defer run.client.Close()
	if err := yardstick.LoadPlain(ctx, run.client); err != nil {
		return err
	}
	redisson, err := env.redisson(ctx, result, run.server.Addr(), rival.Limit{Permits: 1, Per: time.Second}, 1)
	if err != nil {
		return err
	}
	run.rivals = []*sizeRival{run.plain()}
	if redisson != nil {
		defer redisson.Close()
		run.rivals = append(run.rivals, run.redisson(redisson))
	}
	for round := range rounds {
		if err := run.measure(ctx, env, round, exponents); err != nil {
			return err
		}
		env.Progress("round %d of %d done", round+1, rounds)
	}
	run.found.addTo(result)
	run.remark()
	return nil
}

func sizeViews(windows []time.Duration) []report.View {
	var names []string
	for _, w := range windows {
		names = append(names, w.String())
	}
	return []report.View{
		{Metric: "script", Title: "Time in the script per call", Unit: "µs", X: "permits", Plot: true, LogX: true,
			LogY: true, Keep: true, Drawn: []string{"shardlimit, granted", "shardlimit, denied", "plain ZSET, granted",
				"plain ZSET, denied", "Redisson, granted", "Redisson, denied"}},
		{Metric: "longest", Title: "Longest single call", Unit: "ms", X: "permits", Plot: true, LogX: true, LogY: true},
		{Metric: "memory", Title: "Memory of a full limit", Unit: "bytes", X: "permits", Plot: true, LogX: true,
			LogY: true},
		{Metric: "entries", Title: "Entries in the log of a full shard", Unit: "entries", X: "permits", LogX: true},
		{Metric: "script-window", Title: "Time in the script per call, by window", Unit: "µs", X: "window", Plot: true,
			Nominal: true, Cases: names},
		{Metric: "longest-window", Title: "Longest single call, by window", Unit: "ms", X: "window", Nominal: true,
			Cases: names},
		{Metric: "memory-window", Title: "Memory of a full limit, by window", Unit: "bytes", X: "window", Nominal: true,
			Cases: names},
	}
}

// measure is one round of everything.
func (run *sizeRun) measure(ctx context.Context, env Env, round int, exponents []int) error {
	for _, i := range rotated(len(exponents), round) {
		permits := int64(math.Pow10(exponents[i]))
		if err := run.ours(ctx, round, sizePoint{permits, run.usual, float64(permits), ""}); err != nil {
			return fmt.Errorf("%d permits: %w", permits, err)
		}
	}
	env.Progress("round %d: sizes of %s done", round+1, sizeOurs)
	for i, window := range run.windows {
		if err := run.ours(ctx, round, sizePoint{sizeWindowed, window, float64(i), "-window"}); err != nil {
			return fmt.Errorf("a window of %s: %w", window, err)
		}
	}
	env.Progress("round %d: windows of %s done", round+1, sizeOurs)
	for _, r := range run.rivals {
		for _, exponent := range exponents {
			permits := int64(math.Pow10(exponent))
			if r.bounded(permits) {
				break
			}
			if err := run.theirs(ctx, round, r, permits); err != nil {
				return fmt.Errorf("%s with %d permits: %w", r.name, permits, err)
			}
		}
		env.Progress("round %d: %s done", round+1, r.name)
	}
	return nil
}

// sizePoint is one size of limit, and where its figures go.
type sizePoint struct {
	permits int64
	window  time.Duration
	x       float64
	suffix  string // of the metrics
}

// remark says where rivals ended.
func (run *sizeRun) remark() {
	for _, r := range run.rivals {
		if r.last > 0 {
			run.result.Remark("%s is measured up to %d permits: %s.", r.name, r.last, r.why)
		}
	}
}
