package shard

// granularity is the number of permits per window and participant below which a
// shard is too coarse to be divided fairly: see [Auto].
const granularity = 25

// Fit returns how many shards a limit of so many permits can use when so many are wanted: 1 to
// MaxLive, and never more than permits, because every shard needs one.
func Fit(permits int64, want int) int {
	return int(max(min(permits, int64(want), MaxLive), 1))
}

// Auto returns how many shards suit a limit of so many permits on so many nodes
// (independent endpoints, or masters of a cluster) that so many participants
// share: one for each node, as more would only divide the limit without serving
// more, but no more than leaves each participant 25 permits per window on each
// shard, as smaller parts cannot be kept fair. At least 1. Less than one
// participant counts as one.
func Auto(permits int64, nodes int, participants int64) int {
	return Fit(permits/granularity/max(participants, 1), nodes)
}

// Split divides permits into n shares that sum to it exactly and differ by at
// most 1. If permits >= n no share is 0. n <= 0 gives none; permits < 0
// counts as 0.
// The remainder is spread evenly over all n.
func Split(permits int64, n int) []int64 {
	if n <= 0 {
		return nil
	}
	permits = max(permits, 0)
	each, rest := permits/int64(n), permits%int64(n)
	shares := make([]int64, n)
	upTo := func(i int) int64 { return (int64(i)*rest + int64(n) - 1) / int64(n) }
	for i := range shares {
		shares[i] = each + upTo(i+1) - upTo(i)
	}
	return shares
}
