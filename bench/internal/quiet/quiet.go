// Package quiet tells whether others used the machine while something was measured: other
// processes, and on a virtual machine other machines. It reads what Linux tells under /proc; on
// other systems everything is unknown.
package quiet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Proc is where Linux tells of itself.
const Proc = "/proc"

// A machine is quiet up to these bounds. One that does nothing else stays far below them.
const (
	LoadAtMost   = 0.25 // load average of the last minute, for each core
	OthersAtMost = 10.0 // percent of all cores that other processes used
	StealAtMost  = 5.0  // percent of all cores that the machine below gave to others
)

// errUnknown means that the system does not tell.
var errUnknown = errors.New("the use of the machine is unknown")

// Noise is what others took of the machine in two spans of time, in percent of all cores.
type Noise struct {
	Known        bool    `json:"known"` // false: the system does not tell
	OthersBefore float64 `json:"othersBefore"`
	StealBefore  float64 `json:"stealBefore"`
	Others       float64 `json:"others"` // while it was measured; this process and its children are not others
	Steal        float64 `json:"steal"`
}

// Why says what disturbed, "" if nothing did or nothing is known.
func (n Noise) Why() string {
	var why []string
	add := func(value, most float64, format string) {
		if value > most {
			why = append(why, fmt.Sprintf(format, value))
		}
	}
	add(n.OthersBefore, OthersAtMost, "other processes used %.0f %% of all cores before")
	add(n.StealBefore, StealAtMost, "%.0f %% of all cores were stolen before")
	add(n.Others, OthersAtMost, "other processes used %.0f %% of all cores meanwhile")
	add(n.Steal, StealAtMost, "%.0f %% of all cores were stolen meanwhile")
	return strings.Join(why, ", ")
}

// String is a line of a report.
func (n Noise) String() string {
	if !n.Known {
		return "unknown"
	}
	return fmt.Sprintf("other processes %.1f %% of all cores (%.1f %% before), stolen %.1f %% (%.1f %% before)",
		n.Others, n.OthersBefore, n.Steal, n.StealBefore)
}

// Busy reports whether a machine is used by others, by its load averages, as in /proc/loadavg. It
// is for a program that has just begun. Averages that cannot be read count as idle.
func Busy(averages string, cores int) bool {
	lastMinute, err := strconv.ParseFloat(strings.SplitN(averages+" ", " ", 2)[0], 64)
	return err == nil && lastMinute > LoadAtMost*float64(cores)
}

// Reading is what the system has counted up to an instant, in its ticks.
type Reading struct {
	known            bool
	busy, steal, all float64
	own              float64 // of this process and of the children that it has waited for
}

// Read reads what is told under proc, which is Proc but for tests.
func Read(proc string) Reading {
	r, err := read(proc)
	r.known = err == nil
	return r
}

func read(proc string) (r Reading, err error) {
	cpu, err := firstLine(proc, "stat")
	if err != nil {
		return r, err
	}
	ticks, err := numbers(strings.Fields(strings.TrimPrefix(cpu, "cpu ")), 8)
	if err != nil || !strings.HasPrefix(cpu, "cpu ") {
		return r, errUnknown
	}
	user, nice, system, idle, wait, irq, soft := ticks[0], ticks[1], ticks[2], ticks[3], ticks[4], ticks[5], ticks[6]
	r.busy, r.steal = user+nice+system+irq+soft, ticks[7]
	r.all = r.busy + r.steal + idle + wait
	own, children, err := Times(proc, "self")
	r.own = own + children
	return r, err
}

// Times are how many ticks a process has used that is told of under proc, in user and system time,
// and the children that it has waited for.
func Times(proc, process string) (own, children float64, err error) {
	stat, err := firstLine(proc, filepath.Join(process, "stat"))
	if err != nil {
		return 0, 0, err
	}
	const before = 11                                                  // from the state to the four times
	words := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // a name may have spaces
	if len(words) < before {
		return 0, 0, errUnknown
	}
	times, err := numbers(words[before:], 4)
	if err != nil {
		return 0, 0, err
	}
	return times[0] + times[1], times[2] + times[3], nil
}

// since is how much others and the machine below used since an earlier reading, in percent of all
// cores; nothing if one of the two is not known, or no tick has passed.
func (r Reading) since(earlier Reading) (others, steal float64) {
	all := r.all - earlier.all
	if !r.known || !earlier.known || all <= 0 {
		return 0, 0
	}
	others = (r.busy - earlier.busy) - (r.own - earlier.own)
	return 100 * max(others, 0) / all, 100 * max(r.steal-earlier.steal, 0) / all
}

// Between is the noise of what was measured from begin to end, after a span of rest that ended
// then.
func Between(rest, begin, end Reading) (n Noise) {
	n.OthersBefore, n.StealBefore = begin.since(rest)
	n.Others, n.Steal = end.since(begin)
	n.Known = rest.known && begin.known && end.known
	return n
}

func firstLine(folder, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(folder, name))
	line, _, _ := strings.Cut(string(text), "\n")
	return line, err
}

func numbers(words []string, least int) ([]float64, error) {
	if len(words) < least {
		return nil, errUnknown
	}
	found := make([]float64, least)
	for i := range found {
		var err error
		if found[i], err = strconv.ParseFloat(words[i], 64); err != nil {
			return nil, err
		}
	}
	return found, nil
}
