package script

import (
	_ "embed"
	"fmt"

	"github.com/redis/rueidis"
)

var (
	//go:embed meter.lua
	luaMeter string
	//go:embed meter_load.lua
	luaMeterLoad string
	//go:embed meter_adopt.lua
	luaMeterAdopt string
	//go:embed meter_take.lua
	luaMeterTake string
	//go:embed meter_reserve.lua
	luaMeterReserve string
	//go:embed meter_reserved.lua
	luaMeterReserved string
	//go:embed meter_rest.lua
	luaMeterRest string
	//go:embed meter_taken.lua
	luaMeterTaken string
	//go:embed meter_grant.lua
	luaMeterGrant string
	//go:embed meter_reply.lua
	luaMeterReply string
	//go:embed meter_refund.lua
	luaMeterRefund string
	//go:embed meter_peek.lua
	luaMeterPeek string
	//go:embed meter_clear.lua
	luaMeterClear string
	//go:embed meter_drop.lua
	luaMeterDrop string

	//go:embed slidingcounter.lua
	luaSlidingCounter string
	//go:embed fixedwindow.lua
	luaFixedWindow string
	//go:embed bucket.lua
	luaBucket string
	//go:embed tokenbucket.lua
	luaTokenBucket string
	//go:embed leakybucket.lua
	luaLeakyBucket string
	//go:embed tokenbucket_taken.lua
	luaTokenBucketTaken string
	//go:embed leakybucket_taken.lua
	luaLeakyBucketTaken string
)

// luaMeterAhead says what is booked ahead, before fair_charge.lua.
const luaMeterAhead = "local ahead = booked()\n"

// withMeters fills in the programs of the algorithms that keep a shard in one string.
func withMeters(all [programCount]program) [programCount]program {
	for a, rule := range map[Algorithm]string{
		AlgorithmSlidingCounter: luaSlidingCounter,
		AlgorithmFixedWindow:    luaFixedWindow,
		AlgorithmTokenBucket:    luaBucket + luaTokenBucket,
		AlgorithmLeakyBucket:    luaBucket + luaLeakyBucket,
	} {
		add := func(operation int, name string, parts ...string) {
			names := fmt.Sprintf("local MAGIC, TAKES = '%s', %t\n", magics[a], operation == takeProgram)
			p := compose(a.String()+" "+name, append([]string{names}, parts...)...)
			all[ShardRef{algorithm: a}.program(operation)] = p
		}
		taken := luaMeterTaken
		switch a {
		case AlgorithmTokenBucket:
			taken = luaTokenBucketTaken
		case AlgorithmLeakyBucket:
			taken = luaLeakyBucketTaken
		}
		add(takeProgram, "take", luaMeter, rule, luaMeterLoad, luaMeterAdopt, luaMeterTake, luaFair, luaMeterGrant, luaMeterReply, taken, luaFairSettle, luaReply)
		add(reserveProgram, "reserve", luaMeter, rule, luaMeterLoad, luaMeterAdopt, luaMeterAhead, luaFairCharge, luaMeterReserve, luaMeterReply, luaMeterReserved, luaCharged)
		add(refundProgram, "refund", luaMeter, rule, luaMeterLoad, luaMeterRefund)
		add(peekProgram, "peek", luaMeter, rule, luaMeterLoad, luaMeterPeek)
		add(clearProgram, "clear", luaMeter, rule, luaMeterLoad, luaMeterClear)
		add(bookProgram, "book", luaMeter, rule, luaMeterLoad, luaBook)
		add(dropProgram, "drop", luaMeterDrop)
	}
	return all
}

// mostLoads is of how many loads meter_peek.lua tells at the most.
const mostLoads = 9

// parseMeterPeek reads what meter_peek.lua replies.
func parseMeterPeek(reply []rueidis.RedisMessage) (PeekReply, error) {
	p := &programs[peekProgram]
	var n [11 + 2*mostLoads + 2*MaxReleases]int64
	if len(reply) < 11 || len(reply) > len(n) {
		return PeekReply{}, malformed(p, "wrong length")
	}
	numbers := n[:len(reply)]
	if err := integers(p, reply, numbers); err != nil {
		return PeekReply{}, err
	}
	if !natural(numbers) || n[0] > int64(OK) || n[10] > mostLoads {
		return PeekReply{}, malformed(p, "out of range")
	}
	released := 11 + 2*int(n[10])
	if more := len(numbers) - released; more < 0 || more%2 != 0 || more > 2*MaxReleases {
		return PeekReply{}, malformed(p, "wrong length")
	}
	peek := PeekReply{
		Status: Status(n[0]), Epoch: n[1], Target: n[2], Share: n[3], Start: n[4], Used: n[5],
		Window: duration(n[6]), Closed: duration(n[7]), Reset: duration(n[8]), Free: n[9],
	}
	for i := released; i < len(numbers); i += 2 {
		peek.Releases = append(peek.Releases, Release{In: duration(n[i]), Permits: n[i+1]})
	}
	var beside []Load
	for i := 11; i < released; i += 2 {
		beside = append(beside, Load{In: duration(n[i]), Permits: n[i+1]})
	}
	if peek.Status == OK {
		peek.measure(beside)
	}
	return peek, nil
}
