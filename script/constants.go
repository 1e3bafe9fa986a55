package script

import (
	"strconv"
	"time"

	"github.com/shardlimit/shardlimit/fairness"
)

// What buckets keep.
const (
	mostBookings = 128 // every call reads all of them
	mostLacking  = 9_999_999_999_999
	mostLows     = 8 // in so many stretches of time an empty bucket fills
	// far bounds what is missing, and microseconds, where a queue meets quite another rate, so that
	// nothing overflows.
	far = 1_000_000_000_000_000
)

// How a server tells since when it has its memory.
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

// constants are the numbers that scripts have in common with Go, by the names that scripts write
// behind "@". Those of the fairness rule are fairness.Constants.
var constants = func() map[string]string {
	all := fairness.Constants()
	for name, value := range map[string]int64{
		"WRAP": wrap, "MAX_FILL": int64(MaxFill / time.Microsecond),
		"MOST_ENTRIES": mostEntries, "MOST_PENDING": mostPending, "MAX_RELEASES": MaxReleases,
		"FAR": far, "MOST_LACKING": mostLacking, "LOWS": mostLows, "MOST_USED": mostUsed,
		"MOST_BOOKINGS": mostBookings,
		"GAP":           startGap, "SLACK": slack, "LIFTED_AFTER": liftedAfter,
		"MARK_BYTES": markBytes, "MARK_LIFE": milliseconds(markLife),
	} {
		all[name] = strconv.FormatInt(value, 10)
	}
	all["LIFE"] = "string.format('%.0f', window / 500 + 1000)" // ms, of a ledger: two windows and a second
	all["SUCCESSOR"] = VoteSuccessor
	all["READ"], all["END"] = number(readFirst), number(readFirst-1)
	all["LAYOUT"] = "(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)" // behind the letter of the algorithm: see layoutText
	return all
}()
