package script

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

var allAlgorithms = []Algorithm{AlgorithmSlidingLog, AlgorithmSlidingCounter, AlgorithmFixedWindow,
	AlgorithmTokenBucket, AlgorithmLeakyBucket}

// agreePacked runs one generated sequence on twin and server and compares every reply, and every
// byte that is stored.
func agreePacked(t *rapid.T, twin *twin, server timed, expires bool) {
	a := server.ref.algorithm
	s := newStage(t, a)
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		for _, step := range s.steps() {
			s.agree(t, step, twin, server)
		}
		for _, ms := range lives(server.endpoint.client, server.ref) {
			if expires && (ms <= 0 || ms > milliseconds(12*MaxWindow+MaxFill+keep)) {
				t.Fatalf("%v: a key lives %d ms", a, ms)
			}
		}
		got, err := server.endpoint.Ledger(server.at(s.node), server.ref)
		if err != nil || !reflect.DeepEqual(got, twin.Ledger(s.node)) {
			t.Fatalf("%v: standings: %v\ntwin   %+v\nserver %+v", a, err, twin.Ledger(s.node), got)
		}
	}
}

// agree runs generated sequences on twins of each algorithm, and on shards of servers that have been up for
// so many seconds.
func agree(t *testing.T, expires bool, on func(a Algorithm, uptime int64) timed) {
	overPacked(t, func(t *testing.T, a Algorithm) {
		rapid.Check(t, func(t *rapid.T) {
			uptime := rapid.SampledFrom(ages).Draw(t, "uptime")
			twin := newTwin(a)
			twin.runFor(time.Duration(uptime) * time.Second)
			agreePacked(t, twin, on(a, uptime), expires)
		})
	})
}

// agreeOnMiniredis is slow. So it plays one algorithm at a time, where a real server plays all.
func agreeOnMiniredis(tb testing.TB) func(*rapid.T) {
	m := miniredis.RunT(tb)
	endpoint := NewEndpoint(miniClient(tb, m))
	return func(t *rapid.T) {
		m.FlushAll()
		a := rapid.SampledFrom(allAlgorithms).Draw(t, "algorithm")
		agreePacked(t, newTwin(a), timed{m, endpoint, a.Keys("", "t", "limit")}, true)
	}
}

func TestPackedAgreesWithMiniredis(t *testing.T) {
	t.Parallel()
	rapid.Check(t, agreeOnMiniredis(t))
}

func FuzzTakeSequence(f *testing.F) { f.Fuzz(rapid.MakeFuzz(agreeOnMiniredis(f))) }

func TestPackedAgreesWithRedis(t *testing.T) {
	t.Parallel()
	client := redistest.Standalone(t).Client(t)
	run := 0
	agree(t, true, func(a Algorithm, uptime int64) timed {
		run++
		command(t, client, "FLUSHALL")
		return onClocked(client, uptime, a.Keys("", strconv.Itoa(run), "limit")) // with a mark of its own
	})
	if run > 100 && pacedTakes.Load() == 0 { // of fewer plays it may be that none has such a take
		t.Error("no take was paced")
	}
}

// TestTwinAgreesWithTheSimulatedServer: what histories find on the simulated server holds for real
// ones, which are compared with the same twins.
func TestTwinAgreesWithTheSimulatedServer(t *testing.T) {
	t.Parallel()
	agree(t, false, onSimulated)
}
