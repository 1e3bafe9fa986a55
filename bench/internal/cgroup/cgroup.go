// Package cgroup caps the CPU time of processes with Linux control groups, so
// that one machine can stand for many small ones. It makes groups of its own
// and changes no other; versions 1 and 2 of the kernel's interface will do.
package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ErrUnsupported is wrapped by every error that means: no group can be made
// here, for want of cgroups or of the right to make one.
var ErrUnsupported = errors.New("no CPU quota can be set here")

const (
	prefix = "shardlimit-bench-" // then the process id of the maker and a number
	// A group can be removed only when the kernel has done with its last
	// process, which can be a little after that was reaped.
	removeTimeout = 2 * time.Second
	removePause   = 5 * time.Millisecond
)

var made atomic.Int64

// Group is a control group of our own.
type Group struct {
	dir string
	v2  bool
}

// Quota is a part of one core: CPU time in every period. The kernel knows
// quotas of 1 ms and more, and periods of 1 ms to 1 s.
type Quota struct {
	Time, Period time.Duration
}

// New makes a group with no process in it. It also removes what a run that was
// killed has left behind.
func New(q Quota) (*Group, error) {
	parent, v2, ok := hierarchy("/sys/fs/cgroup")
	if !ok {
		return nil, ErrUnsupported
	}
	sweep(parent)
	g := &Group{
		dir: filepath.Join(parent, fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), made.Add(1))),
		v2:  v2,
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if err := g.limit(q); err != nil {
		_ = os.Remove(g.dir)
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return g, nil
}

// hierarchy is the folder below root in which groups with a CPU quota are made, and whether it is
// of version 2. Making a folder hand the cpu controller on would change the machine for others.
func hierarchy(root string) (dir string, v2, ok bool) {
	handed, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
	if err == nil && slices.Contains(strings.Fields(string(handed)), "cpu") {
		return root, true, true
	}
	dir = filepath.Join(root, "cpu")
	_, err = os.Stat(filepath.Join(dir, "cgroup.procs"))
	return dir, false, err == nil
}

func (g *Group) limit(q Quota) error {
	quota, period := q.Time.Microseconds(), q.Period.Microseconds()
	if g.v2 {
		return g.write("cpu.max", fmt.Sprintf("%d %d", quota, period))
	}
	return errors.Join(
		g.write("cpu.cfs_period_us", strconv.FormatInt(period, 10)),
		g.write("cpu.cfs_quota_us", strconv.FormatInt(quota, 10)),
	)
}

// Add moves a process, with all its threads, into the group.
func (g *Group) Add(pid int) error {
	return g.write("cgroup.procs", strconv.Itoa(pid))
}

func (g *Group) write(file, text string) error {
	// Without O_CREATE: what the kernel does not offer must not become a file.
	f, err := os.OpenFile(filepath.Join(g.dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Close removes the group. Its processes must have ended.
func (g *Group) Close() error {
	for deadline := time.Now().Add(removeTimeout); ; time.Sleep(removePause) {
		err := os.Remove(g.dir)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// sweep removes the groups whose makers are gone. The kernel refuses to remove
// one in which a process lives.
func sweep(parent string) {
	stale, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range stale {
		maker, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if pid, err := strconv.Atoi(maker); err == nil && !alive(pid) {
			_ = os.Remove(dir)
		}
	}
}

func alive(pid int) bool {
	_, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	return !errors.Is(err, os.ErrNotExist)
}
