package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// machine makes the files of a made-up machine and returns its root.
func machine(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestHierarchy(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string // below the root; "" for none
		v2    bool
	}{
		"v1": {map[string]string{"cpu/cgroup.procs": ""}, "cpu", false},
		"v1 beside v2": {map[string]string{"cpu/cgroup.procs": "", "unified/cgroup.subtree_control": "cpu"}, "cpu",
			false},
		"v2":            {map[string]string{"cgroup.subtree_control": "cpuset cpu"}, ".", true},
		"v2, no cpu":    {map[string]string{"cgroup.subtree_control": "cpuset memory"}, "", false},
		"nothing there": {nil, "", false},
	} {
		root := machine(t, c.files)
		dir, v2, ok := hierarchy(root)
		if ok != (c.want != "") || ok && (dir != filepath.Join(root, c.want) || v2 != c.v2) {
			t.Errorf("%s: %s, version 2: %v, found: %v", name, dir, v2, ok)
		}
	}
}

func TestLimit(t *testing.T) {
	q := Quota{Time: time.Millisecond, Period: 20 * time.Millisecond}
	for _, c := range []struct {
		v2    bool
		files map[string]string // what must be written
	}{
		{false, map[string]string{"cpu.cfs_period_us": "20000", "cpu.cfs_quota_us": "1000", "cgroup.procs": "77"}},
		{true, map[string]string{"cpu.max": "1000 20000", "cgroup.procs": "77"}},
	} {
		empty := make(map[string]string)
		for name := range c.files {
			empty[name] = ""
		}
		g := &Group{dir: machine(t, empty), v2: c.v2}
		if err := errors.Join(g.limit(q), g.Add(77)); err != nil {
			t.Fatal(err)
		}
		for name, want := range c.files {
			if text, _ := os.ReadFile(filepath.Join(g.dir, name)); string(text) != want {
				t.Errorf("%s holds %q, want %q", name, text, want)
			}
		}
	}
	if err := (&Group{dir: t.TempDir()}).limit(q); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that the kernel does not offer was made: %v", err)
	}
}

func TestSweep(t *testing.T) {
	parent := t.TempDir()
	for _, name := range []string{prefix + "10-1", prefix + "11-1", prefix + "x-1", "other"} {
		if err := os.Mkdir(filepath.Join(parent, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sweep(parent, func(pid int) bool { return pid == 11 })
	for name, want := range map[string]bool{prefix + "10-1": false, prefix + "11-1": true, prefix + "x-1": true,
		"other": true} {
		if isDir(filepath.Join(parent, name)) != want {
			t.Errorf("%s is there: %v, want %v", name, !want, want)
		}
	}
}

func TestCloseRemoves(t *testing.T) {
	g := &Group{dir: filepath.Join(t.TempDir(), "g")}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // closing again is no fault
		if err := g.Close(); err != nil || isDir(g.dir) {
			t.Errorf("err %v, still there: %v", err, isDir(g.dir))
		}
	}
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
