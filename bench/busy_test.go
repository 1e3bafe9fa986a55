package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/scenario"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// machine is a /proc of a machine on which others use so many of a hundred ticks in each rest.
type machine struct {
	dir        string
	busy, idle int
	others     []int // in each rest, the last one for ever
	loads      []string
}

func (m *machine) write(t *testing.T) {
	t.Helper()
	stat := fmt.Sprintf("cpu  %d 0 0 %d 0 0 0 0 0 0\n", m.busy, m.idle)
	self := "1 (bench) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 6 7\n"
	for name, text := range map[string]string{"stat": stat, "self/stat": self} {
		limittest.Must(t, os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600))
	}
}

// on is a job on the machine, with a scenario that finds a point.
func (m *machine) on(t *testing.T, busy string) (*job, *strings.Builder) {
	t.Helper()
	m.dir = t.TempDir()
	limittest.Must(t, os.Mkdir(filepath.Join(m.dir, "self"), 0o755))
	m.write(t)
	out := &strings.Builder{}
	next := func() string {
		now := m.loads[0]
		m.loads = m.loads[min(1, len(m.loads)-1):]
		return now
	}
	j := &job{out: out, busy: busy, results: t.TempDir(), machine: report.Machine{Cores: 2, Load: next()},
		watch: watch{m.dir, next, func(context.Context, time.Duration) {
			m.busy, m.idle = m.busy+m.others[0], m.idle+100-m.others[0]
			m.others = m.others[min(1, len(m.others)-1):]
			m.write(t)
		}}}
	j.scenarios = []scenario.Scenario{{Name: "one",
		Run: func(_ context.Context, s *scenario.Sheet) error {
			s.Result.Add("a", 1, "rate", 2)
			return nil
		}}}
	return j, out
}

func TestABusyMachineIsRefused(t *testing.T) {
	for name, m := range map[string]*machine{
		"load":   {loads: []string{"1.50 0.10 0.10"}, others: []int{0}},
		"others": {loads: []string{"0.00 0.00 0.00"}, others: []int{40}},
	} {
		j, _ := m.on(t, refuse)
		err := j.do(t.Context())
		if !errors.Is(err, errBusy) || !strings.Contains(err.Error(), "--busy") {
			t.Errorf("%s: err %v, want errBusy, which says what to do", name, err)
		}
		if _, err := report.Read(filepath.Join(j.results, "one.json")); err == nil {
			t.Errorf("%s: it was measured", name)
		}
	}
}

func TestABusyMachineIsMarked(t *testing.T) {
	j, out := (&machine{loads: []string{"0.00 0.00 0.00"}, others: []int{40}}).on(t, mark)
	limittest.Must(t, j.do(t.Context()))
	r, err := report.Read(filepath.Join(j.results, "one.json"))
	if err != nil || r.Noise == nil || r.Noise.OthersBefore != 40 || r.Disturbed() == "" {
		t.Errorf("%+v, err %v: not marked", r.Noise, err)
	}
	if !strings.Contains(out.String(), "BUSY") {
		t.Errorf("it was not said:\n%s", out)
	}
}

func TestAQuietMachineIsWaitedFor(t *testing.T) {
	m := &machine{loads: []string{"2.00 1.00 1.00", "0.60 1.00 1.00", "0.10 1.00 1.00"}, others: []int{0, 0, 50, 0}}
	j, out := m.on(t, wait)
	limittest.Must(t, j.do(t.Context()))
	r, err := report.Read(filepath.Join(j.results, "one.json"))
	if err != nil || r.Disturbed() != "" || r.Machine.Load != "0.10 1.00 1.00" {
		t.Errorf("%+v, load %s, err %v: %s", r.Noise, r.Machine.Load, err, r.Disturbed())
	}
	if n := strings.Count(out.String(), "waiting"); n != 3 {
		t.Errorf("waited %d times, want 3 (two loads, and others once):\n%s", n, out)
	}
}

// TestWhereNothingIsKnown: on systems that do not tell, it is measured, and said to be unknown.
func TestWhereNothingIsKnown(t *testing.T) {
	j, _ := (&machine{loads: []string{"unknown"}, others: []int{0}}).on(t, refuse)
	j.watch.proc = filepath.Join(t.TempDir(), "none")
	limittest.Must(t, j.do(t.Context()))
	r, err := report.Read(filepath.Join(j.results, "one.json"))
	if err != nil || r.Noise == nil || r.Noise.Known {
		t.Errorf("%+v, err %v", r.Noise, err)
	}
}
