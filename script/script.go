// Package script runs the Redis side of shardlimit: one Lua script for each operation on a shard of a limit, and on a limit's record.
//
// A shard counts by one [Algorithm]. A sliding log is two keys with one hash tag: a head (a small string) and a log (a ZSET); the other algorithms
// need no more than a string. [Endpoint] sends typed requests to the scripts and checks what comes back; a [Twin] is the same algorithm in
// Go, equal to the Lua result for result and byte for byte. The Go twin is the oracle of the tests and the engine of limits that live in one process.
//
// All times inside scripts are integers in microseconds of the shard's own clock (the node's TIME, made monotonic by the shard), so
// no clocks need agree. Durations cross the Go API as [time.Duration].
package script

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strings"
)

var (
	//go:embed slidinglog.lua
	luaLoad string
	//go:embed slidinglog_rest.lua
	luaRest string
	//go:embed slidinglog_trim.lua
	luaTrim string
	//go:embed slidinglog_adopt.lua
	luaAdopt string
	//go:embed slidinglog_settle.lua
	luaSettle string
	//go:embed slidinglog_take.lua
	luaTake string
	//go:embed slidinglog_taken.lua
	luaTaken string
	//go:embed fair.lua
	luaFair string
	//go:embed fair_settle.lua
	luaFairSettle string
	//go:embed fair_account.lua
	luaFairAccount string
	//go:embed fair_counters.lua
	luaFairCounters string
	//go:embed fair_charge.lua
	luaFairCharge string
	//go:embed slidinglog_ahead.lua
	luaAhead string
	//go:embed fair_restore.lua
	luaFairRestore string
	//go:embed slidinglog_enter.lua
	luaEnter string
	//go:embed slidinglog_leave.lua
	luaLeave string
	//go:embed slidinglog_crests.lua
	luaCrests string
	//go:embed slidinglog_reserve.lua
	luaReserve string
	//go:embed slidinglog_reserved.lua
	luaReserved string
	//go:embed book.lua
	luaBook string
	//go:embed slidinglog_refund.lua
	luaRefund string
	//go:embed slidinglog_peek.lua
	luaPeek string
	//go:embed slidinglog_clear.lua
	luaClear string
	//go:embed slidinglog_drop.lua
	luaDrop string
	//go:embed record_read.lua
	luaRecordRead string
	//go:embed record_write.lua
	luaRecordWrite string
	//go:embed record_drop.lua
	luaRecordDrop string
)

// luaCut says what has left the window, for operations that adopt nothing.
const luaCut = "local cut = now - window\n"

// luaReply ends operations that have nothing to add to the common reply.
const luaReply = "return reply\n"

// luaCharged ends reservations: what fair_charge.lua has to write down.
const luaCharged = `if charge then
  local date = reply[14] + reply[16]
  if granted == 0 and date == 0 and reply[8] >= 0 and reply[8] <= ARGV[4] + 0 then -- too much is booked ahead: there may be room then
    date = math.max(0, reply[8] - math.min(math.floor(ARGV[5] * string.sub(ARGV[2], 2, 14) / math.max(share, 1)), 1e15))
  end
  pcall(charge, granted, date)
end
return reply
`

// program is a script ready to be sent: its text and the name under which servers cache it.
type program struct {
	name string
	text string
	sha  string
	// firstWrite is the line with the first command that can write.
	firstWrite int
}

// Every program has a place of its own in an endpoint's memory of what is loaded.
const (
	// Operations on a shard: these are the sliding log's programs, those of the other algorithms follow in the same order. See ShardRef.program.
	takeProgram = iota
	reserveProgram
	refundProgram
	peekProgram
	clearProgram
	dropProgram
	bookProgram
	shardOperations
)

const (
	readRecordProgram = shardOperations + iota
	writeRecordProgram
	dropRecordProgram
	meterPrograms
	programCount = meterPrograms + int(algorithms-1)*shardOperations
)

var programs = withMeters([programCount]program{
	takeProgram:        compose("take", luaLoad, luaAdopt, luaTrim, luaSettle, luaTake, luaFair, luaEnter, luaTaken, luaFairSettle, luaReply),
	reserveProgram:     compose("reserve", luaLoad, luaAdopt, luaTrim, luaSettle, luaAhead, luaFairCharge, luaReserve, luaEnter, luaReserved, luaCharged),
	refundProgram:      compose("refund", luaLoad, luaCut, luaTrim, luaRefund),
	peekProgram:        compose("peek", luaLoad, luaCut, luaTrim, luaPeek),
	clearProgram:       compose("clear", luaLoad, luaClear),
	dropProgram:        compose("drop", luaDrop),
	bookProgram:        compose("book", luaLoad, luaBook),
	readRecordProgram:  compose("read record", luaRecordRead),
	writeRecordProgram: compose("write record", luaRecordWrite),
	dropRecordProgram:  compose("drop record", luaRecordDrop),
})

// inclusionDepth is how deep inclusions lie in one another: counters in account, in restore.
const inclusionDepth = 3

// inclusions are parts that few calls need, included where they are needed: defining a function costs every call that passes by.
var inclusions = strings.NewReplacer(
	"-- include leave\n", luaLeave,
	"-- include crests\n", luaCrests,
	"-- include rest\n", luaRest,
	"-- include metered\n", luaMeterRest,
	"-- include account\n", luaFairAccount,
	"-- include restore\n", luaFairRestore,
	"-- include counters\n", luaFairCounters,
)

// compose joins the parts.
func compose(name string, parts ...string) program {
	text := strings.Join(parts, "")
	for range inclusionDepth {
		text = inclusions.Replace(text)
	}
	sum := sha1.Sum([]byte(text)) // the name Redis gives it, not a secret
	return program{name: name, text: text, sha: hex.EncodeToString(sum[:]), firstWrite: firstWrite(text)}
}
