//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package history

import "time"

var began = time.Now()

// Now reads a monotonic clock, in ns since this process began. Histories of
// several processes cannot be checked as one on this system.
func Now() int64 { return int64(time.Since(began)) }
