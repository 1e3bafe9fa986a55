package script

import (
	"slices"
	"strconv"

	"github.com/redis/rueidis"
)

// withPacked fills in the recipes of the algorithms that keep a shard in one string.
func withPacked(all [programCount]recipe) [programCount]recipe {
	for a, own := range map[Algorithm]struct {
		file  string
		rule  []string
		taken string
	}{
		AlgorithmSlidingCounter: {"slidingcounter", []string{"slidingcounter"}, "packed_taken"},
		AlgorithmFixedWindow:    {"fixedwindow", []string{"fixedwindow"}, "packed_taken"},
		AlgorithmTokenBucket:    {"tokenbucket", []string{"bucket", "tokenbucket"}, "packed_taken"},
		AlgorithmLeakyBucket:    {"leakybucket", []string{"bucket", "leakybucket"}, "leakybucket_taken"},
	} {
		add := func(operation int, name string, parts ...string) {
			all[ShardRef{algorithm: a}.program(operation)] = recipe{
				name:  a.String() + " " + name,
				file:  own.file + "_" + name,
				parts: parts,
				names: map[string]string{"MAGIC": magics[a], "TAKES": strconv.FormatBool(operation == takeProgram)},
			}
		}
		load := slices.Concat([]string{"packed_names", "packed"}, own.rule, []string{"packed_load"})
		with := func(parts ...string) []string { return slices.Concat(load, parts) }
		add(takeProgram, "take",
			with("fenced", "packed_adopt", "packed_take", "fair", "packed_grant", "packed_reply", own.taken,
				"fair_settle",
				"reply")...)
		add(reserveProgram, "reserve",
			with("fenced", "packed_adopt", "packed_ahead", "fair_charge", "packed_reserve", "packed_reply",
				"packed_reserved",
				"fair_charged")...)
		add(refundProgram, "refund", with("packed_refund")...)
		add(peekProgram, "peek", with("packed_peek")...)
		add(clearProgram, "clear", with("packed_clear")...)
		add(ledgerProgram, "ledger", with("ledger")...)
		add(dropProgram, "drop", "packed_drop", "drop")
	}
	return all
}

// mostLoads is of how many loads packed_peek.lua tells at the most.
const mostLoads = 9

// parsePackedPeek reads what packed_peek.lua replies.
func parsePackedPeek(reply []rueidis.RedisMessage) (PeekReply, error) {
	p := &programs[peekProgram]
	var n [peekLoads + 1 + 2*mostLoads + 2*MaxReleases]int64
	if len(reply) <= peekLoads || len(reply) > len(n) {
		return PeekReply{}, malformed(p, "wrong length")
	}
	numbers := n[:len(reply)]
	if err := integers(p, reply, numbers); err != nil {
		return PeekReply{}, err
	}
	if !natural(numbers) || n[peekStatus] > int64(OK) || n[peekLoads] > mostLoads {
		return PeekReply{}, malformed(p, "out of range")
	}
	released := peekLoads + 1 + 2*int(n[peekLoads])
	if more := len(numbers) - released; more < 0 || more%2 != 0 || more > 2*MaxReleases {
		return PeekReply{}, malformed(p, "wrong length")
	}
	peek := lookedAt(numbers)
	peek.Free = n[peekFree]
	for i := released; i < len(numbers); i += 2 {
		peek.Releases = append(peek.Releases, Release{In: duration(n[i]), Permits: n[i+1]})
	}
	var beside []Load
	for i := peekLoads + 1; i < released; i += 2 {
		beside = append(beside, Load{In: duration(n[i]), Permits: n[i+1]})
	}
	if peek.Status == OK {
		peek.measure(beside)
	}
	return peek, nil
}
