package script

import (
	"strconv"
	"time"

	"github.com/shardlimit/shardlimit/fairness"
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
	all["LIFE"] = "format('%.0f', window / 500 + 1000)" // ms, of a ledger: two windows and a second
	all["TIME"], all["INFO"] = "redis.call('TIME')", "redis.pcall('INFO', 'server')"
	all["SUCCESSOR"] = VoteSuccessor
	all["READ"], all["END"] = number(readFirst), number(readFirst-1)
	all["LAYOUT"] = "(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)" // behind the letter of the algorithm: see layoutText
	return all
}()
