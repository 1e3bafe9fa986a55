//go:build !linux

package redistest

import "os/exec"

// dieWithParent does nothing where the kernel has no parent-death signal: a
// crash of the test binary leaves its servers running.
func dieWithParent(*exec.Cmd) {}
