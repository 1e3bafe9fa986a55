//go:build !unix

package load

import "time"

// CPU is not known here.
func CPU() time.Duration { return 0 }
