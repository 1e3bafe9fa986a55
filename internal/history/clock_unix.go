//go:build linux || darwin || freebsd || netbsd || openbsd

package history

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Now reads the machine's monotonic clock, in ns since some instant before the
// process began, usually the machine's start. It is the same clock for all
// processes of one machine, so their histories can be checked as one.
func Now() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(fmt.Sprintf("history: no monotonic clock: %v", err)) // it is mandatory in POSIX
	}
	return now.Nano()
}
