package script

import "time"

const (
	// startGap is how soon a server must start after the mark of its memory was written, so that
	// it has the rest of its memory if it has the mark, in microseconds. The start may be up to 2 s
	// before what the uptime tells. What was granted in so long can be forgotten by a server that
	// was killed just after a snapshot.
	startGap = 5 * second
	// slack is by how much a limit must be older than the server's memory, in microseconds: as far
	// as an uptime, a difference of whole seconds, may be from the truth.
	slack = 2 * second
	// liftedAfter is how long a quarantine goes on at most after a clear, in microseconds: then
	// nobody relies any more on what was read before the loss (node.Relied).
	liftedAfter = 5 * second
	// markBytes is how long a mark is at most: two times of the server, in microseconds.
	markBytes = 33
	// markLife is how long the mark is kept when nobody creates state.
	markLife = 24 * time.Hour
)
