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

// Every program has a place of its own in an endpoint's memory of what is loaded.
const (
	// Operations on a shard, of each algorithm in this order. See ShardRef.program.
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

// recipes are what the programs are made of.
var recipes = withPacked([programCount]recipe{
	voteProgram:   {name: "vote", file: "vote", parts: []string{"run", "vote"}},
	placesProgram: {name: "places", file: "places", parts: []string{"run", "places"}},
	calmProgram: {name: "calm take", file: "calm_take", parts: []string{"take"}, names: map[string]string{
		"PLAN": "ARGV[1]", "FIRST": "2", "COUNT": "#keys - 1", "DECIDE": "take_whole", "TELL": "", "MORE": "",
		"SIGN": ";", "MARK": "0", "MEMORY": "keys[#keys]"}},
	pacedProgram: {name: "paced take", file: "paced_take", parts: []string{"take"}, names: map[string]string{
		"PLAN": "''", "FIRST": "2", "COUNT": "1", "DECIDE": "fair_take", "TELL": "fair_taken",
		"SIGN": ":0 0 ", "MARK": "17", "MEMORY": "keys[#keys]", "SERVE": "fair_serve", "MORE": " .. more",
		"ASKS": "ARGV[1]", "NEXT": "(count > 0 and soonest or 0)"}},
})

var programs = func() (all [programCount]program) {
	for i := range recipes {
		all[i] = recipes[i].program()
	}
	return all
}()
