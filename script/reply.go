package script

import (
	"math"
	"time"

	"github.com/redis/rueidis"
)

// maxTime bounds what a reply may give as a time or a duration, so that no conversion can overflow. Microseconds, some 290 000 years.
const maxTime = math.MaxInt64 / int64(time.Microsecond)

// integers reads the first len(dst) elements of a reply, all of which must be integers within [-1, maxTime].
func integers(p *program, reply []rueidis.RedisMessage, dst []int64) error {
	if len(reply) < len(dst) {
		return malformed(p, "too short")
	}
	for i := range dst {
		n, err := reply[i].ToInt64()
		if err != nil || n < -1 || n > maxTime {
			return malformed(p, "not an integer in range")
		}
		dst[i] = n
	}
	return nil
}

// natural reports whether no number is negative.
func natural(numbers []int64) bool {
	for _, n := range numbers {
		if n < 0 {
			return false
		}
	}
	return true
}
