//go:build !linux

package server

import "os/exec"

// dieWithParent does nothing where there is no such signal.
func dieWithParent(*exec.Cmd) {}
