package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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
	for _, c := range []struct {
		name, mount, groups string
		files               map[string]string
		want                string // below the root; "" for an error
		v2                  bool
	}{
		{"v1", "30 25 0:26 / ROOT/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct",
			"4:memory:/m\n2:cpu,cpuacct:/a/b\n",
			map[string]string{"cpu/a/b/tasks": ""}, "cpu/a/b", false},
		{"v1, own group not visible", "30 25 0:26 / ROOT/cpu rw - cgroup cgroup rw,cpu", "2:cpu:/a/b\n",
			map[string]string{"cpu/tasks": ""}, "cpu", false},
		{"v1, a container's root", "30 25 0:26 /docker/x ROOT/cpu rw - cgroup cgroup rw,cpu", "2:cpu:/docker/x/y\n",
			map[string]string{"cpu/y/tasks": ""}, "cpu/y", false},
		{"v1 before v2",
			"29 25 0:25 / ROOT/two rw - cgroup2 cgroup2 rw\n30 25 0:26 / ROOT/cpu rw - cgroup cgroup rw,cpu",
			"2:cpu:/\n0::/\n",
			map[string]string{"cpu/tasks": "", "two/cgroup.subtree_control": "cpu"}, "cpu", false},
		{"v2, own group delegates", "29 25 0:25 / ROOT/two rw - cgroup2 cgroup2 rw", "0::/me\n",
			map[string]string{"two/me/cgroup.subtree_control": "cpu io", "two/cgroup.subtree_control": "cpu"}, "two/me",
			true},
		{"v2, only the root delegates", "29 25 0:25 / ROOT/two rw - cgroup2 cgroup2 rw", "0::/me/deep\n",
			map[string]string{"two/me/deep/cgroup.subtree_control": "", "two/cgroup.subtree_control": "cpuset cpu"},
			"two", true},
		{"v2, cpuset is not cpu", "29 25 0:25 / ROOT/two rw - cgroup2 cgroup2 rw", "0::/\n",
			map[string]string{"two/cgroup.subtree_control": "cpuset memory"}, "", false},
		{"nothing", "22 25 0:5 / ROOT/proc rw - proc proc rw", "", nil, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := machine(t, c.files)
			mounts, groups := filepath.Join(root, "mountinfo"), filepath.Join(root, "cgroup")
			if err := errors.Join(
				os.WriteFile(mounts, []byte(strings.ReplaceAll(c.mount, "ROOT", root)), 0o644),
				os.WriteFile(groups, []byte(c.groups), 0o644),
			); err != nil {
				t.Fatal(err)
			}
			dir, v2, err := hierarchy(mounts, groups)
			if (err != nil) != (c.want == "") {
				t.Fatalf("err %v, want a folder: %v", err, c.want != "")
			}
			if c.want != "" && (dir != filepath.Join(root, c.want) || v2 != c.v2) {
				t.Errorf("got %s, version 2: %v; want %s, %v", dir, v2, c.want, c.v2)
			}
		})
	}
}

func TestLimit(t *testing.T) {
	q := Quota{Time: time.Millisecond, Period: 20 * time.Millisecond}
	if q.Part() != 0.05 {
		t.Errorf("part %v, want 0.05", q.Part())
	}
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
