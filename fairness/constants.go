package fairness

import "strconv"

// Units: credit is kept in millionths of a permit, demand and weight in thousandths, parts in
// billionths.
const (
	milli = 1000
	micro = 1_000_000
	giga  = 1_000_000_000
)

// Credit. An account holds depth permits at the most: see depth.
const (
	depthPart  = 0.15 // of what a participant is entitled to in a window
	depthRoot  = 1.5  // times its square root, which is more for the small ones
	depthLeast = 2    // permits
	// millionths: credit accrues once there is this much, so that rounding down loses at most a
	// thousandth
	grain = 1000
)

// Claims.
const (
	backedTimes = 2 // a claim is backed by so many times what was used,
	backedMore  = 4 // and so many permits
	recently    = 2 // refused for longer than these windows ahead: the clock was set back
	fading      = 4 // a claim fades after a window divided by this without an ask
)

// Headroom and hints.
const (
	headroomPart = 0.008 // of the share is kept free for those who have much credit left
	// nobody is told to stay away for the sake of its credit for longer than a window divided by
	// this
	pausePart = 4
	wantPart  = 64   // who is refused waits for no more than the share divided by this
	leastPart = 1024 // nobody is told to come back sooner than a window divided by this
	reachPart = 4    // appointments reach a window divided by this ahead
	// windows: what is ahead by more was left there by a clock that was set back; what is booked
	// later counts as if it were for then
	farAhead = 3
	// who books too much that is not paid tries again after a window divided by this at the soonest
	holdPart = 64
)

// Sweep.
const (
	slice      = 16                  // how many accounts one call looks at
	hardly     = 8                   // while there is no room, who wants less than 1/8 of a part of 1/1024 gives way
	roomy      = MaxAccounts * 7 / 8 // up to so many accounts a name that came once is remembered as long as others
	onceRoomy  = 2                   // above that it is forgotten after a window divided by this,
	onceFull   = 8                   // and while there is no room at all after one divided by this
	forgetting = 2                   // windows of silence after which an account is forgotten
	passes     = 20                  // at most so many in a window
	// but so many while there is no level, because nobody is held back until one is found; fewer if
	// a pass takes several calls
	anew = 200
)

// What numbers may grow to.
const (
	most     = 1_000_000_000_000_000     // reports saturate here
	deepest  = 1_000_000_000_000_000_000 // millionths of a permit: no debt is greater
	farthest = 1_000_000_000_000_000     // us: no payment takes longer
	busiest  = 1_000_000_000_000         // permits: what bookings may bring the use of a window to
)

// Constants returns the numbers of the rule by the names that the scripts have for them, as Lua
// writes them.
func Constants() map[string]string {
	names := map[string]string{"SHARED": shared, "MOST_REPORTED": "1e15", "DEEPEST": "1e18", "FARTHEST": "1e15",
		"BUSIEST": "1e12"}
	for name, value := range map[string]float64{
		"MILLI": milli, "MICRO": micro, "GIGA": giga, "MAX_ACCOUNTS": MaxAccounts,
		"DEPTH_PART": depthPart, "DEPTH_ROOT": depthRoot, "DEPTH_LEAST": depthLeast, "GRAIN": grain,
		"BACKED_TIMES": backedTimes, "BACKED_MORE": backedMore * milli, "RECENTLY": recently, "FADING": fading,
		"HEADROOM_PART": headroomPart, "PAUSE_PART": pausePart, "WANT_PART": wantPart, "LEAST_PART": leastPart,
		"REACH_PART": reachPart, "FAR_AHEAD": farAhead,
		"SLICE": slice, "HARDLY": hardly, "ROOMY": roomy, "ONCE_ROOMY": onceRoomy, "ONCE_FULL": onceFull,
		"FORGETTING": forgetting, "PASSES": passes, "ANEW": anew,
	} {
		names[name] = strconv.FormatFloat(value, 'f', -1, 64)
	}
	return names
}
