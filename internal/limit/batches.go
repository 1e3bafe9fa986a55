package limit

// A shard has room for whole batches only: what is left of its share in a window stays unused while
// nobody wants less.

// mostUnused is the part of a limit, in hundredths, that may stay unused without a word.
const mostUnused = 5

// fittingBatch returns how much of the shares, in hundredths, batches of n leave unused, and the
// largest batch that is not larger and leaves next to nothing of the least of them.
func fittingBatch(shares []int64, n int64) (unused, fits int64) {
	var all, left int64
	least := shares[0]
	for _, share := range shares {
		all, left, least = all+share, left+share%n, min(least, share)
	}
	if n > least || all == 0 { // then a batch is put together from several shards
		return 0, n
	}
	return left * 100 / all, max(least/(least/n+1), 1)
}

// BatchesWait tells the log, as a rule once a layout, that callers wait for n permits together
// which leave a part of the shards' shares unused. A participant that is alone takes what is left
// of several shards together.
func (c *Core) BatchesWait(r *Routes, n int64) {
	if r == nil || !r.Split || n == 1 || r.Limit.Scope == PerParticipant || r.Limit.Algorithm.Bursty() ||
		r.Record.Participants.Load() < 2 || r.told.Load() {
		return
	}
	shares := make([]int64, len(r.live))
	for i, s := range r.live {
		shares[i] = s.Share
	}
	unused, fits := fittingBatch(shares, n)
	if unused > mostUnused && r.told.CompareAndSwap(false, true) {
		c.Process.Config.Logger.Warn("batches do not fit the shards: part of the limit may stay unused",
			"limiter", c.Name, "batch", n, "unused percent", unused, "fits", fits, "or", "Limit.Shards: 1")
	}
}
