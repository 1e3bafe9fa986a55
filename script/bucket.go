package script

import "math/bits"

const (
	mostBookings = 128 // every call reads all of them
	mostLacking  = 9_999_999_999_999
	mostLows     = 8 // in so many stretches of time an empty bucket fills
)

// far bounds what is missing, and microseconds, where a queue meets quite another rate, so that
// nothing overflows.
const far = 1_000_000_000_000_000

// mulDiv returns the whole part and the remainder of (a*b + c) / d; the whole part must be below
// 2^63.
func mulDiv(a, b, c, d int64) (whole, rest int64) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	low, carry := bits.Add64(low, uint64(c), 0)
	q, r := bits.Div64(high+carry, low, uint64(d))
	return int64(q), int64(r)
}
