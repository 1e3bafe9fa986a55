package script

import (
	"slices"
	"strconv"
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
			with("fenced", "packed_adopt", "fair_charge", "packed_reserve", "packed_reply",
				"packed_reserved",
				"fair_charged")...)
		add(settleProgram, "settle",
			with("fenced", "packed_adopt", "settle_once", "packed_back", "packed_reply", "settled", "fair_used",
				"reply")...)
		add(peekProgram, "peek", with("packed_peek")...)
		add(clearProgram, "clear", with("packed_clear")...)
		add(ledgerProgram, "ledger", with("ledger")...)
		add(dropProgram, "drop", "packed_drop", "drop")
	}
	return all
}
