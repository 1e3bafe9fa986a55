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

// A machine that is not quiet is marked or waited for, as was asked. On systems that do not tell,
// it is measured, and said to be unknown.
func TestABusyMachineIsMarkedOrWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		busy, proc string
		m          machine
		holds      func(r report.Result, said string) bool
	}{
		"marked": {mark, "", machine{loads: []string{"0.00 0.00 0.00"}, others: []int{40}},
			func(r report.Result, said string) bool {
				return r.Noise.OthersBefore == 40 && r.Disturbed() != "" && strings.Contains(said, "BUSY")
			}},
		"waited for": {wait, "", machine{loads: []string{"2.00 1.00 1.00", "0.60 1.00 1.00", "0.10 1.00 1.00"},
			others: []int{0, 0, 50, 0}},
			func(r report.Result, said string) bool { // for two loads, and for others once
				return r.Disturbed() == "" && r.Machine.Load == "0.10 1.00 1.00" && strings.Count(said, "waiting") == 3
			}},
		"unknown": {refuse, "none", machine{loads: []string{"unknown"}, others: []int{0}},
			func(r report.Result, _ string) bool { return !r.Noise.Known }},
	} {
		j, out := c.m.on(t, c.busy)
		j.watch.proc = filepath.Join(j.watch.proc, c.proc)
		limittest.Must(t, j.do(t.Context()))
		r, err := report.Read(filepath.Join(j.results, "one.json"))
		if err != nil || r.Noise == nil || !c.holds(r, out.String()) {
			t.Errorf("%s: %+v on %+v, err %v:\n%s", name, r.Noise, r.Machine, err, out)
		}
	}
}
