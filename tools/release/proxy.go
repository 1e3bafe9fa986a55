package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	mod "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// publish puts a version of a module, as its tag has it, into a module proxy of files.
func (m moduleTag) publish(proxy string) error {
	escaped, err := mod.EscapePath(m.path)
	if err != nil {
		return err
	}
	dir := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := git(m.clone, "show", m.tag+":"+strings.TrimPrefix(m.dir+"/go.mod", "/"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{m.version, time.Unix(0, 0).UTC()})
	if err != nil {
		return err
	}
	for name, content := range map[string]string{
		"list": m.version + "\n", m.version + ".mod": text, m.version + ".info": string(info),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	file, err := os.Create(filepath.Join(dir, m.version+".zip"))
	if err != nil {
		return err
	}
	err = zip.CreateFromVCS(file, mod.Version{Path: m.path, Version: m.version}, m.clone, m.tag, m.dir)
	if err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// A moduleTag is a version of a module in a clone.
type moduleTag struct {
	clone, tag, path, dir, version string
}

// goCommand runs the go command in a folder, without a workspace.
func goCommand(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOWORK=off"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
