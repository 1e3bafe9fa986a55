package script

import (
	"maps"
	"slices"
	"strconv"
)

// withPacked fills in the recipes of the algorithms that keep a shard in one string.
func withPacked(all [programCount]recipe) [programCount]recipe {
	log := []string{"log_load", "log"}
	token := []string{"bucket", "tokenbucket", "bucket_load"}
	leaky := []string{"bucket", "leakybucket", "bucket_load"}
	for a, own := range map[Algorithm]struct {
		file  string
		rule  []string
		taken []string
		end   string // of what is read of the string at first
	}{
		AlgorithmSlidingLog:     {file: "slidinglog", rule: log, end: number(readFirst - 1)},
		AlgorithmSlidingCounter: {file: "slidingcounter", rule: log, end: number(readFirst - 1)},
		AlgorithmFixedWindow:    {file: "fixedwindow", rule: log, end: number(readFirst - 1)},
		AlgorithmTokenBucket:    {file: "tokenbucket", rule: token, end: "-1"},
		AlgorithmLeakyBucket:    {"leakybucket", leaky, []string{"leakybucket_taken"}, "-1"},
	} {
		add := func(operation int, name string, parts ...string) {
			all[ShardRef{algorithm: a}.program(operation)] = recipe{
				name:  name,
				file:  own.file + "_" + name,
				parts: parts,
				names: withNames(logs[a].names(), map[string]string{
					"MAGIC": letters[a], "NEXT": "soonest()", "SERVE": "fair_guarded", "MEMORY": "KEYS[2]",
					"TAKES": strconv.FormatBool(operation == takeProgram),
					"STATE": "redis.pcall('GETRANGE', KEYS[1], '0', '" + own.end + "')",
				}),
			}
		}
		load := []string{"packed", "packed_load"}
		with := func(parts ...string) []string { return slices.Concat(load, own.rule, parts) }
		fenced := func(parts ...string) []string {
			return slices.Concat(load, []string{"fenced"}, own.rule, []string{"packed_adopt"}, parts)
		}
		taken := append([]string{"packed_take", "fair", "packed_grant", "packed_reply", "packed_taken"}, own.taken...)
		add(takeProgram, "take", fenced(append(taken, "fair_settle", "reply")...)...)
		add(reserveProgram, "reserve",
			fenced("fair_charge", "packed_reserve", "packed_reply", "packed_reserved", "reply")...)
		add(settleProgram, "settle",
			fenced("settle_once", "packed_back", "packed_reply", "settled", "fair_used", "reply")...)
		add(peekProgram, "peek", with("packed_peek")...)
		add(clearProgram, "clear", with("packed_clear")...)
		add(ledgerProgram, "ledger", with("ledger")...)
		add(dropProgram, "drop", "packed_drop", "drop")
	}
	return all
}

func withNames(names, more map[string]string) map[string]string {
	all := maps.Clone(names)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, more)
	return all
}
