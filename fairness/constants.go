package fairness

import "strconv"

// Units: credit is in millionths of a permit, demand and weight are in thousandths.
const (
	milli = 1000
	micro = 1_000_000
)

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
	leastPart    = 1024  // and for no less than a window divided by this
	hardly       = 8     // in a full ledger, who wants less than 1/8 of a part of 1/1024 gives way
	// millionths: credit is added once there is so much, so that rounding down loses at most a
	// thousandth
	grain = 1000
)

// What numbers may grow to.
const (
	most    = 1_000_000_000_000_000     // averages, and us until something is paid
	deepest = 1_000_000_000_000_000_000 // millionths of a permit: no debt is greater
)

// Constants returns the numbers of the rule by the names that the scripts have for them, as Lua
// writes them.
func Constants() map[string]string {
	names := map[string]string{"LEDGER": header, "SHARED": shared, "MOST": "1e15", "DEEPEST": "1e18"}
	for name, value := range map[string]float64{
		"MILLI": milli, "MICRO": micro, "MAX_ACCOUNTS": MaxAccounts, "STATEMENTS": statements,
		"BACKED_TIMES": backedTimes, "BACKED_MORE": backedMore * milli,
		"DEPTH_PART": depthPart, "DEPTH_ROOT": depthRoot, "DEPTH_LEAST": depthLeast, "GRAIN": grain,
		"HEADROOM_PART": headroomPart, "WANT_PART": wantPart, "LEAST_PART": leastPart,
		"HARDLY": hardly,
	} {
		names[name] = strconv.FormatFloat(value, 'f', -1, 64)
	}
	return names
}
