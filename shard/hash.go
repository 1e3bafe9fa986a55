package shard

import "math"

// mix spreads the bits of x over the whole word (the finalizer of MurmurHash3).
// It is a bijection, so different x stay different.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}

// pair combines two hashes into one that depends on their order.
func pair(a, b uint64) uint64 { return mix(mix(a) + 0x9e3779b97f4a7c15 ^ b) }

// score is the height of a candidate of this weight in rendezvous hashing:
// -weight/ln(u), where u in (0, 1) comes from the hash. The chance that a
// candidate has the greatest score is its part of the sum of the weights.
func score(hash uint64, weight float64) float64 {
	u := (float64(hash>>11) + 0.5) / (1 << 53)
	return -weight / math.Log(u)
}
