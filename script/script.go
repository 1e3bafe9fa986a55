// Package script runs the Redis side of shardlimit: one Lua script for each operation on a shard of
// a limit, and on a limit's record.
//
// It is for shardlimit itself: no release promises anything of its API. See "Versions" in
// CONTRIBUTING.md.
//
// A shard counts by one [Algorithm]. A sliding log is two keys with one hash tag: a head (a small
// string) and a log (a ZSET); the other algorithms need no more than a string. [Endpoint] sends
// typed requests to the scripts and checks what comes back; a [Twin] is the same algorithm in Go,
// equal to the Lua result for result and byte for byte. The Go twin is the oracle of the tests and
// the engine of limits that live in one process.
//
// All times inside scripts are integers in microseconds of the shard's own clock (the node's TIME,
// made monotonic by the shard), so no clocks need agree. Durations cross the Go API as
// [time.Duration].
package script

// Every program has a place of its own in an endpoint's memory of what is loaded.
const (
	// Operations on a shard: these are the sliding log's programs, those of the other algorithms
	// follow in the same order. See ShardRef.program.
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
	readRecordProgram = shardOperations + iota
	writeRecordProgram
	dropRecordProgram
	voteProgram
	packedPrograms
	programCount = packedPrograms + int(algorithms-1)*shardOperations
)

// recipes are what the programs are made of.
var recipes = withPacked([programCount]recipe{
	takeProgram: {name: "take", file: "slidinglog_take", parts: []string{
		"slidinglog", "fenced", "slidinglog_due", "slidinglog_adopt", "slidinglog_trim", "slidinglog_settle",
		"slidinglog_take", "fair",
		"slidinglog_enter", "slidinglog_taken", "fair_settle", "reply",
	}},
	reserveProgram: {name: "reserve", file: "slidinglog_reserve", parts: []string{
		"slidinglog", "fenced", "slidinglog_due", "slidinglog_adopt", "slidinglog_trim", "slidinglog_settle",
		"fair_charge",
		"slidinglog_reserve", "slidinglog_enter", "slidinglog_reserved", "fair_charged",
	}},
	settleProgram: {name: "settle", file: "slidinglog_settle", parts: []string{
		"slidinglog", "fenced", "slidinglog_due", "slidinglog_adopt", "slidinglog_trim", "slidinglog_sound",
		"slidinglog_settle", "settle_once", "slidinglog_back", "slidinglog_enter", "settled", "fair_used", "reply",
	}},
	peekProgram: {name: "peek", file: "slidinglog_peek",
		parts: []string{"slidinglog", "slidinglog_cut", "slidinglog_trim", "slidinglog_peek"}},
	clearProgram: {name: "clear", file: "slidinglog_clear",
		parts: []string{"slidinglog", "slidinglog_clear"}},
	dropProgram:        {name: "drop", file: "slidinglog_drop", parts: []string{"slidinglog_drop", "drop"}},
	ledgerProgram:      {name: "ledger", file: "slidinglog_ledger", parts: []string{"slidinglog", "ledger"}},
	readRecordProgram:  {name: "read record", file: "record_read", parts: []string{"record", "record_read"}},
	writeRecordProgram: {name: "write record", file: "record_write", parts: []string{"record", "record_write"}},
	dropRecordProgram:  {name: "drop record", file: "record_drop", parts: []string{"record_drop"}},
	voteProgram:        {name: "vote", file: "vote", parts: []string{"vote"}},
})

var programs = func() (all [programCount]program) {
	for i := range recipes {
		all[i] = recipes[i].program()
	}
	return all
}()
