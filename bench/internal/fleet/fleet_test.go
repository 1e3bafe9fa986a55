package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/hist"
	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
)

// chatter makes the workers of this test print what a library might.
const chatter = "SHARDLIMIT_BENCH_CHATTER"

func TestMain(m *testing.M) {
	// A process with the race detector sleeps for a second before it ends: not the workers, of
	// which every test starts some.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	if os.Getenv(chatter) != "" {
		fmt.Println(`{"@timestamp":"2026-11-21","caller":"stat/usage.go","level":"stat"}`)
	}
	ServeIfWorker()
	m.Run()
}

func start(t *testing.T, processes int) *Fleet {
	t.Helper()
	f, err := Start(processes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func job(t *testing.T, kind Kind) Job {
	t.Helper()
	j := Job{
		Kind: kind, Limit: "fleet", Permits: 1e9, Per: time.Second, Shards: 2,
		Participants: []string{"a", "b", "c"}, Callers: 4, Life: time.Minute,
	}
	for range 2 {
		j.Addrs = append(j.Addrs, servertest.Start(t).Addr())
	}
	return j
}

// oneOf has a trial that is over in a moment repeated, because a machine that stands still for that
// long lets nothing happen in it. It is enough that one of six succeeds.
func oneOf(t *testing.T, trial func() error) {
	t.Helper()
	var err error
	for range 6 {
		if err = trial(); err == nil || t.Failed() {
			return
		}
		t.Log(err)
	}
	t.Error("every time: ", err)
}

func TestMeasure(t *testing.T) {
	for _, kind := range []Kind{Coalesced, Plain} {
		j, f := job(t, kind), start(t, 2)
		for range 2 { // a fleet does one job after the other
			oneOf(t, func() error {
				var steps []string
				step := func(name string) func() error {
					return func() error { steps = append(steps, name); return nil }
				}
				r, err := f.Measure(t.Context(), j, 20*time.Millisecond, 50*time.Millisecond, step("before"),
					step("after"))
				if err != nil {
					t.Fatalf("%s: %v", kind, err)
				}
				var h hist.Hist
				h.Merge(r.Latency)
				// Of each caller one call may just be noted when the time is up: its answer counts
				// already, its latency not yet.
				noting := int64(j.Callers * len(j.Participants))
				if h.Count() > r.Decisions() || h.Count() < r.Decisions()-noting ||
					!slices.Equal(steps, []string{"before", "after"}) {
					t.Errorf("%s: %d latencies of %d decisions; called %v", kind, h.Count(), r.Decisions(), steps)
				}
				if r.Allowed == 0 || r.Denied+r.Failed != 0 || r.PerSecond() <= 0 {
					return fmt.Errorf("%s: %d allowed, %d denied, %d failed (%s)", kind, r.Allowed, r.Denied, r.Failed,
						r.Err)
				}
				return nil
			})
		}
	}
}

// TestMeasureWaiting: callers wait for a limit that they use up, and one that wants
// half of it at once is served among them.
func TestMeasureWaiting(t *testing.T) {
	j, f := job(t, Waiting), start(t, 2)
	j.Permits, j.Per, j.Large = 40, 100*time.Millisecond, 20
	oneOf(t, func() error {
		r, err := f.Measure(t.Context(), j, 50*time.Millisecond, 500*time.Millisecond, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if most := 40 * (int64(r.Elapsed/j.Per) + 2); r.Allowed+20*int64(len(r.Large)) > most {
			t.Errorf("%d singles and %d large ones of 20 permits in %s, when there were %d permits", r.Allowed,
				len(r.Large), r.Elapsed, most)
		}
		if r.Allowed == 0 || r.Denied+r.Failed != 0 {
			return fmt.Errorf("%d served, %d denied, %d failed (%s)", r.Allowed, r.Denied, r.Failed, r.Err)
		}
		return nil
	})
}

func TestWorkersEnd(t *testing.T) {
	f := start(t, 2)
	f.Close()
	for _, m := range f.workers {
		if !m.cmd.ProcessState.Success() {
			t.Errorf("a worker ended with %s", m.cmd.ProcessState)
		}
	}
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	j, f := job(t, Coalesced), start(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := f.Measure(ctx, j, time.Millisecond, time.Hour, func() error { cancel(); return nil }, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err %v, want that of the context", err)
	}
}

func TestMeasureTellsWhatIsWrong(t *testing.T) {
	f := start(t, 1)
	_, err := f.Measure(t.Context(), Job{Kind: "odd", Life: time.Minute}, 0, 0, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "odd") {
		t.Errorf("err %v does not name the kind", err)
	}
}

// TestWorkersMayPrint: what something in a worker prints is no reply.
func TestWorkersMayPrint(t *testing.T) {
	t.Setenv(chatter, "1")
	f := start(t, 1)
	_, err := f.Measure(t.Context(), Job{Kind: "odd", Life: time.Minute}, 0, 0, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "odd") {
		t.Errorf("err %v is not what the worker replied", err)
	}
}

// TestStrangeReplies: neither an empty object nor one with other fields is a reply.
func TestStrangeReplies(t *testing.T) {
	self := exec.Command("unused")
	self.Process = &os.Process{Pid: 1}
	for text, good := range map[string]bool{`{}`: false, `{"level":"stat"}`: false,
		`{"ready":true,"level":"stat"}`: false, ``: false, `{"ready":true}`: true} {
		m := &member{cmd: self, replies: strict(strings.NewReader(text))}
		if r, err := m.reply(); (err == nil) != good {
			t.Errorf("%q was understood as %+v, err %v", text, r, err)
		}
	}
}

func TestServeRefusesDisorder(t *testing.T) {
	for _, orders := range []string{`{"word":"run"}`, `nonsense`} {
		var out strings.Builder
		if err := serve(strings.NewReader(orders), &out); err == nil || !strings.Contains(out.String(), `"err"`) {
			t.Errorf("%s: err %v, told %q", orders, err, out.String())
		}
	}
	if err := serve(strings.NewReader(""), &strings.Builder{}); err != nil {
		t.Errorf("the end of the orders is an error: %v", err)
	}
}

func TestDealt(t *testing.T) {
	j := Job{Participants: []string{"a", "b", "c", "d", "e"}}
	if got := j.dealt(0, 2).Participants; !slices.Equal(got, []string{"a", "c", "e"}) {
		t.Errorf("the first of two gets %v", got)
	}
	if got := j.dealt(1, 2).Participants; !slices.Equal(got, []string{"b", "d"}) {
		t.Errorf("the second of two gets %v", got)
	}
	if len(j.Participants) != 5 {
		t.Error("the job itself was changed")
	}
}
