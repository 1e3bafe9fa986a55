package fairness

import (
	"strconv"

	"github.com/shardlimit/shardlimit/internal/columns"
)

// milli: demand, weight and rates are in thousandths.
const milli = 1000

// The numbers of the rule.
const (
	statements   = 16    // a claim is stated anew at most so many times a window
	backedTimes  = 2     // a claim is backed by so many times what was used,
	backedMore   = 4     // and so many permits
	depthPart    = 0.15  // of its part of a window an account holds,
	depthRoot    = 1.5   // or so many times the root of that, which is more for the small ones,
	depthLeast   = 2     // or so many permits
	headroomPart = 0.008 // of the share is kept free for those who have much credit left
	wantPart     = 64    // while nothing is free, a heavy one waits for no more than the share divided by this
	brief        = 1e5   // us; while only the headroom is free, a heavy one with waiters waits for no more
	leastPart    = 1024  // a refused one waits for no less than a window divided by this
	largePart    = 8     // who wants more than the share divided by this is neither heavy for it nor owed it
)

// Constants returns the numbers of the rule by the names that the scripts have for them, as Lua
// writes them.
func Constants() map[string]string {
	names := map[string]string{"LEDGER": header, "LEDGER_KIND": columns.LedgerKind, "SHARED": shared,
		"MOST": "1e15"} // what averages may grow to, and us until something is paid
	for name, value := range map[string]float64{
		"MILLI": milli, "MAX_ACCOUNTS": MaxAccounts, "STATEMENTS": statements,
		"BACKED_TIMES": backedTimes, "BACKED_MORE": backedMore * milli,
		"DEPTH_PART": depthPart, "DEPTH_ROOT": depthRoot, "DEPTH_LEAST": depthLeast,
		"HEADROOM_PART": headroomPart, "WANT_PART": wantPart, "LEAST_PART": leastPart,
		"LARGE_PART": largePart, "BRIEF": brief,
	} {
		names[name] = strconv.FormatFloat(value, 'f', -1, 64)
	}
	return names
}
