package load

import "time"

// CPU is the processor time this process has used so far, user and system; 0
// where it cannot be told.
func CPU() time.Duration { return cpu() }
