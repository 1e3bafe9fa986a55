//go:build !unix

package redistest

import (
	"errors"
	"os"
)

var errNoStop = errors.New("redistest: this system cannot stop a process")

func (p *process) stop() error { return errNoStop }

func (p *process) resume() error { return errNoStop }

// StopProcess cannot suspend a process here.
func StopProcess(*os.Process) error { return errNoStop }

// ResumeProcess cannot have been needed here.
func ResumeProcess(*os.Process) error { return errNoStop }
