// Package fairness is about who is served when more is asked of a limit than it has: weighted
// max-min fairness. It has what callers tell of participants, and reads what a shard keeps of them.
//
// It is for shardlimit itself: no release promises anything of its API. See "Versions" in
// CONTRIBUTING.md.
//
// The scripts fair*.lua of package script decide. They keep an account of each participant,
// estimate the level from what was used and wanted lately, and pace each participant at its weight
// × level. [Standings] reads these accounts. The package does no I/O and reads no clock.
package fairness

const (
	// MaxAccounts is the most participants that have an account of their own; all others share one.
	MaxAccounts = 1024
	// MaxCallers is the most participants that one call may ask for.
	MaxCallers = 32
	// MaxWeight is the largest weight, in thousandths; the smallest is 1.
	MaxWeight = 1_000_000
	// MaxReport bounds what a caller may report as unmet demand (thousandths of a permit) or
	// waiting (permits).
	MaxReport = 1_000_000_000_000
	// IDLength is the length of a participant's id: lower-case hexadecimal digits.
	IDLength = 16
)

// Caller is a participant that takes part in a call, and what it has to report.
type Caller struct {
	// ID identifies the participant: 16 lower-case hexadecimal digits, a hash of its name.
	ID string
	// Weight is its weight in thousandths, 1 to [MaxWeight].
	Weight int64
	// Unmet is the demand of this participant that was denied for good since its last report, in
	// thousandths of a permit, at most [MaxReport].
	Unmet int64
	// Waiting is how many permits its blocked callers still want beyond the asks of this call, at
	// most [MaxReport].
	Waiting int64
}

// Ask is Count asks of Size permits each by one of the callers.
type Ask struct {
	Size, Count int64
	Caller      int // index into the callers
}
