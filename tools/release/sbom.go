package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// generator is the program that writes bills of materials, a tool of this module.
const generator = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod"

// list writes what a module is made of, with licences, into a folder: a CycloneDX document.
func (m module) list(ctx context.Context, program, folder, clone string, env []string) error {
	dir, kind := filepath.Join(clone, filepath.FromSlash(m.dir)), "library"
	if _, err := os.Stat(filepath.Join(dir, "main.go")); err == nil {
		kind = "application"
	}
	name := strings.ReplaceAll(strings.TrimPrefix(m.dir, "/"), "/", "-")
	if name == "" {
		name = filepath.Base(m.path)
	}
	if _, err := goCommand(ctx, dir, env, "mod", "tidy"); err != nil { // sums of siblings are not there yet
		return err
	}
	cmd := exec.CommandContext(ctx, program, "mod", "-licenses", "-json", "-type", kind,
		"-output", filepath.Join(folder, name+".cdx.json"), dir)
	cmd.Env = append(append(os.Environ(), "GOWORK=off"), env...)
	cmd.Env = append(cmd.Env, "GOFLAGS=-modcacherw") // it knows no other flag
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("bill of materials: %w\n%s", err, out)
	}
	return nil
}

// listAll writes a bill of materials for each module that users get.
func listAll(ctx context.Context, modules []module, work, folder, clone string, env []string) error {
	program := filepath.Join(work, "lister")
	if _, err := goCommand(ctx, "", nil, "build", "-o", program, generator); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, m := range modules {
		if m.released() {
			if err := m.list(ctx, program, folder, clone, env); err != nil {
				return fmt.Errorf("%s: %w", m.path, err)
			}
		}
	}
	return nil
}
