package cgroup

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// hierarchy finds the folder in which a group with a CPU quota can be made, and
// whether it is of version 2. The arguments are the files in which the kernel
// tells this process its mounts and its groups.
func hierarchy(mounts, groups string) (dir string, v2 bool, err error) {
	mounted, err := os.ReadFile(mounts)
	if err != nil {
		return "", false, err
	}
	belongs, err := os.ReadFile(groups)
	if err != nil {
		return "", false, err
	}
	var unified string
	for line := range strings.Lines(string(mounted)) {
		m, ok := parseMount(line)
		switch {
		case !ok:
		case m.kind == "cgroup" && slices.Contains(m.options, "cpu"):
			return m.inside(own(string(belongs), "cpu")), false, nil
		case m.kind == "cgroup2":
			unified = delegating(m.point, m.inside(own(string(belongs), "")))
		}
	}
	if unified == "" {
		return "", false, errors.New("the cpu controller is not mounted, or not handed on to any group")
	}
	return unified, true, nil
}

// mount is a mounted file system.
type mount struct {
	root    string // which folder of the file system is mounted
	point   string // where
	kind    string
	options []string // of the file system
}

// parseMount reads a line of mountinfo: "36 35 98:0 /root /point rw - kind
// source options", with optional fields before the dash.
func parseMount(line string) (mount, bool) {
	fields := strings.Fields(line)
	dash := slices.Index(fields, "-")
	if dash < 5 || len(fields) < dash+4 {
		return mount{}, false
	}
	return mount{
		root:    fields[3],
		point:   fields[4],
		kind:    fields[dash+1],
		options: strings.Split(fields[dash+3], ","),
	}, true
}

// inside is the folder of a group, or the mount point itself if the group lies
// outside what is mounted.
func (m mount) inside(group string) string {
	if below, ok := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/")); ok {
		if dir := filepath.Join(m.point, below); isDir(dir) {
			return dir
		}
	}
	return m.point
}

// own is the group of this process under a controller of version 1, or under
// version 2 if controller is empty.
func own(groups, controller string) string {
	for line := range strings.Lines(groups) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, ok := strings.Cut(rest, ":")
		if ok && slices.Contains(strings.Split(controllers, ","), controller) {
			return group
		}
	}
	return "/"
}

// delegating is the nearest folder from dir upwards, not above top, that hands
// the cpu controller on to the groups made in it; "" if there is none. Making a
// folder do so would change the machine for others.
func delegating(top, dir string) string {
	for {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if err == nil && slices.Contains(strings.Fields(string(text)), "cpu") {
			return dir
		}
		if dir == top || len(dir) <= len(top) {
			return ""
		}
		dir = path.Dir(dir)
	}
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
