package script

import (
	"maps"
	"strconv"
	"strings"
)

// withPacked fills in the recipes of the algorithms that keep a shard in one string.
func withPacked(all [programCount]recipe) [programCount]recipe {
	for a, file := range map[Algorithm]string{
		AlgorithmSlidingLog: "log", AlgorithmSlidingCounter: "log", AlgorithmFixedWindow: "log",
		AlgorithmTokenBucket: "tokenbucket", AlgorithmLeakyBucket: "leakybucket",
	} {
		add := func(operation int, name string, parts ...string) {
			names := map[string]string{"MAGIC": letters[a], "NEXT": "soonest()", "SERVE": "fair_guarded", "MEMORY": "KEYS[2]",
				"ASKS":  "ARGV[3]",
				"TAKES": strconv.FormatBool(operation == takeProgram)}
			maps.Copy(names, logs[a].names())
			all[ShardRef{algorithm: a}.program(operation)] = recipe{
				name: name, file: strings.ReplaceAll(a.String(), "_", "") + "_" + name, parts: parts, names: names}
		}
		add(takeProgram, "take", "packed", file, "packed_adopt", "packed_take")
		add(reserveProgram, "reserve", "packed", file, "packed_adopt", "packed_reserve")
		add(settleProgram, "settle", "packed", file, "packed_adopt", "packed_settle")
		add(peekProgram, "peek", "packed", file, "packed_peek")
		add(clearProgram, "clear", "packed", file, "packed_clear")
		add(ledgerProgram, "ledger", "packed", file, "ledger")
		add(dropProgram, "drop", "drop")
	}
	return all
}
