package scenario

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// loop is a closed loop of calls, each made as soon as the one before is answered.
type loop struct {
	who     string // for remarks
	callers int
	span    time.Duration
	timed   bool // each call
	denied  bool // all calls are to be denied, else none
	cold    bool // it counts from the first call on, also when calls fail
	// cpu tells what processor time what is measured has used; nil: that of this process is meant
	cpu  func() (time.Duration, error)
	each func(caller int) load.Call
}

// smokePatience is how long a trial of a loop waits at most for its first decision: the machine is
// busy with the other scenarios.
const smokePatience = 20 * time.Second

// closed runs a loop, warmed up for a quarter of its span unless it is cold, and says what a
// decision cost. One that got no answer, because a rival is slow or a machine stands still, costs
// the others nothing: it has no figures of that.
func (s *Sheet) closed(ctx context.Context, on server.Farm, l loop) (figures, error) {
	if l.cpu == nil {
		l.cpu = func() (time.Duration, error) { return 0, nil }
	}
	plan := load.Plan{Goroutines: l.callers, Warm: l.span / 4, For: l.span, Timed: l.timed}
	if l.cold {
		plan.Warm = 0
	}
	if s.Smoke {
		plan.Patience = smokePatience
	}
	runtime.GC() // the garbage of others is not to be collected in this turn
	from, err := on.Usage(ctx)
	cpuFrom, failed := l.cpu()
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	got, err := load.Run(ctx, plan, l.each)
	if err != nil {
		return nil, err
	}
	to, err := on.Usage(ctx)
	cpuTo, failed := l.cpu()
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	n, all, seconds := float64(got.Decisions()), float64(got.All), got.Elapsed.Seconds()
	who := fmt.Sprintf("%s with %d callers", l.who, l.callers)
	found := figures{"rate": n / seconds}
	switch {
	case l.cold:
		s.example(l.who, got.Err)
		got.Failed = 0 // there is a remark on them
	case n == 0:
		s.Result.Remark("%s: not one decision, %d errors, such as: %v.", who, got.Failed, got.Err)
		return nil, nil
	}
	if n == 0 {
		return found, nil
	}
	cpu := float64(got.CPU) / n
	if used := cpuTo - cpuFrom; used > 0 {
		cpu = float64(used) / all
	}
	used := to.Since(from)
	found["cpu-ns"], found["cpu"], found["script"] = cpu, cpu/1e3, float64(used.ScriptMicro)/all
	found["scripts"] = float64(used.Scripts) / all
	if l.timed {
		found["p99"] = micros(got.Times.Percentile(99))
	}
	s.wrong(who, got, l.denied)
	return found, nil
}

// example remarks on the first error of a limiter.
func (s *Sheet) example(who string, err error) {
	who += ": calls failed, for example: "
	if err != nil && !slices.ContainsFunc(s.Result.Remarks, func(r string) bool { return strings.HasPrefix(r, who) }) {
		s.Result.Remark("%s%v.", who, err)
	}
}

// wrong remarks on calls that failed, or were answered as none should be.
func (s *Sheet) wrong(who string, got load.Sample, denied bool) {
	n := report.Count(float64(got.Decisions() + got.Failed))
	if got.Failed > 0 {
		s.Result.Remark("%s: %d of %s calls failed, for example: %v.", who, got.Failed, n, got.Err)
	}
	wrong, what := got.Denied, "denied, although the limit was not reached"
	if denied {
		wrong, what = got.Allowed, "allowed, although nothing was free"
	}
	if wrong > 0 {
		s.Result.Remark("%s: %d of %s calls were %s.", who, wrong, n, what)
	}
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }

// Times that calls which fail are tried again: on a machine that is very busy a connection may take
// longer than a client waits.
const (
	warmTries = 5
	warmPause = time.Second
)

// until calls until the answer is the wanted one, a few times.
func until(ctx context.Context, want bool, call load.Call) error {
	for try := 1; ; try++ {
		ok, err := call(ctx)
		if err == nil && ok != want {
			err = fmt.Errorf("allowed %v, want %v", ok, want)
		}
		if err == nil || try == warmTries || ctx.Err() != nil {
			return err
		}
		if err := load.Sleep(ctx, warmPause); err != nil {
			return err
		}
	}
}

// open connects a limiter and makes one call of a limit that nobody measures, so that the server
// knows the script: a herd of calls that all find it missing is an outage to go-zero's circuit
// breaker.
func open(ctx context.Context, name string, connect func() (rival.Handle, error)) (rival.Handle,
	error) {
	h, err := connect()
	if err != nil {
		return h, fmt.Errorf("open %s: %w", name, err)
	}
	err = until(ctx, true, func(ctx context.Context) (bool, error) {
		allow, err := h.Limiter(ctx, "warm-up-"+strings.ReplaceAll(name, " ", "_"))
		if err != nil {
			return false, err
		}
		_, err = allow(ctx)
		return true, err
	})
	if err != nil {
		h.Close()
		return h, fmt.Errorf("warm up %s: %w", name, err)
	}
	return h, nil
}

// rivals connects all rivals to one server, and lets play have each of them in its turns. Each has
// a limit that nobody has used before.
func (s *Sheet) rivals(ctx context.Context, limit rival.Limit, rounds int,
	play func(on server.Farm, name string, round int, allow rival.Allow) error) error {
	on, err := s.start(ctx, 1)
	if err != nil {
		return err
	}
	defer on.Close()
	var all []rival.Handle
	defer func() {
		for _, o := range all {
			o.Close()
		}
	}()
	for _, r := range s.Rivals {
		o, err := open(ctx, r.Name, func() (rival.Handle, error) { return r.Open(ctx, on.Addr(), limit) })
		if err != nil {
			return err
		}
		all = append(all, o)
	}
	return s.inTurns(rounds, len(all), func(round, i int) error {
		allow, err := all[i].Limiter(ctx, fmt.Sprintf("%s-%d", s.Result.Scenario, round))
		if err == nil {
			err = play(on, s.Rivals[i].Name, round, allow)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.Rivals[i].Name, err)
		}
		return nil
	})
}
