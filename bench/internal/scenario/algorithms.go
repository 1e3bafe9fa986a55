package scenario

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/script"
)

var algorithms = Scenario{
	Name:  "algorithms",
	Title: "what each algorithm makes of the same bursty demand",
	Question: `Nothing is measured here: the scripts decide on a simulated clock, so every run draws the same pictures.
Light demand, then a burst across the edge of a fixed window, a rest, and two seconds of two and a half times the
limit. Permits above the limit "in the last second" slip through; under the leaky bucket a permit counts when its
turn has come.`,
	X: "seconds",
	Run: func(ctx context.Context, s *Sheet) error {
		s.Result.Timeless = true
		s.setting("Limit", "%d permits per second on one shard, Burst the same", shapePermits)
		s.setting("Demand", "30/s until 1 s, 1500/s from 1.9 to 2.1 s, 250/s from 4 to 6 s, calls for one permit")
		s.Result.Software = append(s.Result.Software, report.Pair{Name: "simulated with", Value: runtime.Version()})
		wanted := make([]float64, shapeEnd/shapeBin)
		for at := int64(0); at < shapeEnd; at += shapeStep {
			wanted[at/shapeBin] += float64(shapeDemand(at))
		}
		for _, a := range []script.Algorithm{script.AlgorithmSlidingLog, script.AlgorithmSlidingCounter,
			script.AlgorithmFixedWindow, script.AlgorithmTokenBucket, script.AlgorithmLeakyBucket} {
			acts, err := shapeOf(ctx, a)
			if err != nil {
				return fmt.Errorf("%v: %w", a, err)
			}
			s.Result.Charts = append(s.Result.Charts, shapeChart(a, wanted, acts))
		}
		return nil
	},
}

const (
	shapePermits = 100
	shapeWindow  = int64(1_000_000)                 // us
	shapeStep    = int64(1_000)                     // us between two moments at which calls come
	shapeBin     = int64(50_000)                    // us that one point of a picture stands for
	shapeEnd     = int64(7_000_000)                 // us
	shapeBegin   = int64(1_700_000_000) * 1_000_000 // us since 1970, where a fixed window begins
)

// shapeDemand is how many calls for one permit come in the step that begins at the instant, us.
func shapeDemand(at int64) int64 {
	perSecond := int64(0)
	switch {
	case at < 1_000_000:
		perSecond = 30
	case at >= 1_900_000 && at < 2_100_000: // two edges of windows lie at 1 and 2 s
		perSecond = 1500
	case at >= 4_000_000 && at < 6_000_000:
		perSecond = 250
	}
	return perSecond*(at+shapeStep)/1_000_000 - perSecond*at/1_000_000
}

// shapeOf returns when the permits act that the algorithm grants, us from the beginning, in order.
func shapeOf(ctx context.Context, a script.Algorithm) ([]int64, error) {
	server, err := miniredis.Run()
	if err != nil {
		return nil, err
	}
	defer server.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	proposal, err := script.Terms{
		Epoch: 1, Target: shapePermits, Floor: shapePermits, Window: time.Duration(shapeWindow) * time.Microsecond,
		Keep: time.Minute, Algorithm: a,
	}.Proposal()
	if err != nil {
		return nil, err
	}
	var acts []int64
	endpoint, ref := script.NewEndpoint(client), a.Keys("", "shape", "limit")
	for at := int64(0); at < shapeEnd; at += shapeStep {
		calls := shapeDemand(at)
		if calls == 0 {
			continue
		}
		server.SetTime(time.UnixMicro(shapeBegin + at))
		reply, err := endpoint.Take(ctx, ref,
			&script.TakeRequest{Proposal: proposal, Groups: []script.Group{{Size: 1, Count: calls}}})
		if err != nil {
			return nil, err
		}
		for k := range reply.Granted {
			acts = append(acts, at+int64(reply.DelayOf(k)/time.Microsecond))
		}
	}
	slices.Sort(acts)
	return acts, nil
}

func shapeChart(a script.Algorithm, wanted []float64, acts []int64) report.Chart {
	bins := len(wanted)
	admitted, lately, limit := make([]float64, bins), make([]float64, bins), make([]float64, bins)
	for i := range bins {
		limit[i] = shapePermits
		end := int64(i+1) * shapeBin
		for _, at := range acts {
			if at < end && at >= end-shapeWindow {
				lately[i]++
			}
			if at < end && at >= end-shapeBin {
				admitted[i]++
			}
		}
	}
	return report.Chart{
		Name:  strings.ReplaceAll(a.String(), " ", "-"),
		Title: strings.ToUpper(a.String()[:1]) + a.String()[1:] + ", permits admitted", X: "seconds", Unit: "permits",
		First: float64(shapeBin) / 1e6, Step: float64(shapeBin) / 1e6, Ceiling: 220,
		Lines: []report.Line{
			{Group: "in the last second", Y: lately},
			{Group: "in 50 ms", Y: admitted},
			{Group: "wanted in 50 ms", Y: wanted},
			{Group: "limit", Y: limit},
		},
	}
}
