// Package script runs the Redis side of shardlimit: one Lua script for each operation on a shard of
// a limit, and on a place of a record.
//
// It is for shardlimit itself: no release promises anything of its API. See "Versions" in
// CONTRIBUTING.md.
//
// A shard counts by one [Algorithm], and is one string; while participants contend their accounts
// stand in a hash beside it. [Endpoint] sends typed requests to the scripts and checks what comes
// back. The tests have a twin of each algorithm in Go, equal to the Lua result for result. What
// they store is equal too, but for entries that have left a log.
//
// All times inside scripts are integers in microseconds of the shard's own clock (the node's TIME,
// made monotonic by the shard), so no clocks need agree. Durations cross the Go API as
// [time.Duration].
package script

import (
	"maps"
	"strconv"
	"strings"
)

// Operations on a shard. Each algorithm has a program for each of them.
const (
	takeProgram = iota
	reserveProgram
	settleProgram
	peekProgram
	clearProgram
	dropProgram
	ledgerProgram
	shardOperations
)

const (
	voteProgram = iota
	placesProgram
	calmProgram  // takes of shards of several algorithms
	pacedProgram // a take of a log while participants contend
	recordPrograms
	programCount = recordPrograms + int(algorithms)*shardOperations
)

// programs are all scripts. Those of the shards follow in the order of their algorithms: see
// programOf.
var programs = func() (all [programCount]program) {
	all[voteProgram] = program{name: "vote", file: "vote", parts: []string{"run", "vote"}}
	all[placesProgram] = program{name: "places", file: "places", parts: []string{"run", "places"}}
	all[calmProgram] = program{name: "calm take", file: "calm_take", parts: []string{"struct", "take"}}
	all[calmProgram].names = map[string]string{
		"PLAN": "ARGV[1]", "COUNT": "#keys - 1", "DECIDE": "take_whole", "TELL": "", "MORE": "",
		"SIGN": ";", "MARK": "0", "MEMORY": "keys[#keys]"}
	all[pacedProgram] = program{name: "paced take", file: "paced_take",
		parts: []string{"struct", "fair_header", "fair_serve", "fair", "take"}}
	all[pacedProgram].names = map[string]string{
		"PLAN": "''", "COUNT": "1", "DECIDE": "fair_take", "TELL": "fair_taken",
		"SIGN": ":0 0 ", "MARK": "17", "MEMORY": "keys[#keys]", "MORE": " .. more"}
	for a, file := range [algorithms]string{"log", "log", "log", "tokenbucket", "leakybucket"} {
		a := Algorithm(a)
		for operation, parts := range [shardOperations][]string{
			takeProgram: {"take", "struct", "fair_header", "fair_serve", "fair",
				"packed", file, "packed_store", "packed_adopt", "packed_take"},
			reserveProgram: {"reserve", "struct", "fair_header", "fair_charge",
				"packed", file, "packed_store", "packed_adopt", "packed_reserve"},
			settleProgram: {"settle", "struct", "packed", file, "packed_store", "packed_adopt", "packed_settle"},
			peekProgram:   {"peek", "struct", "packed", file, "packed_peek"},
			clearProgram:  {"clear", "struct", "packed", file, "packed_store", "packed_clear"},
			ledgerProgram: {"ledger", "struct", "packed", file, "ledger"},
			dropProgram:   {"drop", "drop"},
		} {
			names := map[string]string{"MAGIC": letters[a], "MEMORY": "KEYS[2]",
				"TAKES": strconv.FormatBool(operation == takeProgram)}
			maps.Copy(names, logs[a].names())
			all[recordPrograms+int(a)*shardOperations+operation] = program{name: parts[0],
				file: strings.ReplaceAll(a.String(), "_", "") + "_" + parts[0], parts: parts[1:], names: names}
		}
	}
	for i := range all {
		all[i].number = i
		all[i].assemble()
	}
	return all
}()

// programOf returns the program for an operation on a shard that counts by the algorithm.
func (a Algorithm) programOf(operation int) *program {
	return &programs[recordPrograms+int(a)*shardOperations+operation]
}
