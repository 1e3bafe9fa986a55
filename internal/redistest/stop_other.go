//go:build !unix

package redistest

import "errors"

var errNoStop = errors.New("redistest: this system cannot stop a process")

func (p *process) stop() error { return errNoStop }

func (p *process) resume() error { return errNoStop }
