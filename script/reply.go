package script

import (
	"math"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// maxTime bounds what a reply may give as a time or a duration, so that no conversion can overflow.
// Microseconds, some 290 000 years.
const maxTime = math.MaxInt64 / int64(time.Microsecond)

// Where replies have their numbers, counted from 0. Scripts call them by the names of replyNames.
const (
	replyStatus = iota // of takes and reservations
	replyStart
	replyBefore
	replyGranted
	replyUsed
	replyAt
	replyNext
	replyRetry
	replyReset
	replyClosed
	replyEpoch
	replyTarget
	replyShare
	replyEarly
	replyOwn // what the algorithm or the operation adds
)

// Of a take: whether the next one had better be the full take at once. Then of a leaky bucket: the
// delay of the first permit, us and a part of a us, and the window.
const (
	takeRare = replyOwn + iota
	takeDelay
	takePart
	takeWindow
)

// Of a reservation.
const (
	reserveDelay = replyOwn + iota
	reservePaced
	reserveNumbers
)

// Of a settlement.
const (
	settleBack = replyOwn + iota
	settleRepeated
	settleNumbers
)

// replyNames are the names that scripts write behind "@", for what they count from 1.
var replyNames = map[string]int{
	"take.rare": takeRare, "take.delay": takeDelay, "take.part": takePart, "take.window": takeWindow,
	"reserve.delay": reserveDelay, "reserve.paced": reservePaced,
	"settle.back": settleBack, "settle.repeated": settleRepeated,
}

// integers reads the first len(dst) elements of a reply, all of which must be integers within
// [-maxTime, maxTime].
func integers(p *program, reply []rueidis.RedisMessage, dst []int64) error {
	if len(reply) < len(dst) {
		return malformed(p, "too short")
	}
	for i := range dst {
		n, err := reply[i].ToInt64()
		if err != nil || n < -maxTime || n > maxTime {
			return malformed(p, "not an integer in range")
		}
		dst[i] = n
	}
	return nil
}

// readNumbers reads what a take, a reservation or a settlement replies. It is shorter if nothing
// was proposed, or too late.
func readNumbers(p *program, reply []rueidis.RedisMessage, n []int64) error {
	length, absent := len(n), len(reply) == replyOwn
	if absent {
		length = replyOwn
	}
	if len(reply) != length {
		return malformed(p, "wrong length")
	}
	if err := integers(p, reply, n[:length]); err != nil {
		return err
	}
	sound := natural(n[:replyRetry]) && n[replyRetry] >= -1 && natural(n[replyReset:]) &&
		(n[replyStatus] < int64(Fenced) || n[replyStatus] == int64(Fenced) && n[replyEpoch] == 0)
	if !sound || absent != (Status(n[replyStatus]) == Absent || Status(n[replyStatus]) == Fenced) {
		return malformed(p, "out of range")
	}
	return nil
}

// counts reads a reply of integers, none of them negative, and of texts behind them.
func counts(p *program, reply []rueidis.RedisMessage, dst []int64, texts []string) error {
	if len(reply) != len(dst)+len(texts) {
		return malformed(p, "wrong length")
	}
	if err := integers(p, reply, dst); err != nil {
		return err
	}
	if !natural(dst) {
		return malformed(p, "out of range")
	}
	for i := range texts {
		var err error
		if texts[i], err = reply[len(dst)+i].ToString(); err != nil {
			return malformed(p, "a text is none")
		}
	}
	return nil
}

// natural reports whether no number is negative.
func natural(numbers []int64) bool {
	return !slices.ContainsFunc(numbers, func(n int64) bool { return n < 0 })
}
