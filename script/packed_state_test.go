package script

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/columns"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// overPacked runs a test for every algorithm that keeps a shard in one string.
func overPacked(t *testing.T, test func(t *testing.T, a Algorithm)) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), func(t *testing.T) { test(t, a) })
	}
}

// overClock runs a test for every algorithm on a server whose clock the test moves.
func overClock(t *testing.T, test func(t *testing.T, c *stillRedis, e *Endpoint, ref ShardRef)) {
	overPacked(t, func(t *testing.T, a Algorithm) {
		c := newClock(t)
		test(t, c, NewEndpoint(miniClient(t, c.Miniredis)), a.Keys("", "t", "limit"))
	})
}

// damaged is a state with a byte all over a column.
func damaged(state, column string, with byte) string {
	var from, end int
	place, _ := columns.Lua(column)
	_, _ = fmt.Sscanf(place, "%d, %d", &from, &end)
	own := strings.IndexByte(state, ';')
	return state[:own+from] + strings.Repeat(string([]byte{with}), end-from+1) + state[own+end+1:]
}

func TestForeignPacked(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		overPacked(t, func(t *testing.T, a Algorithm) {
			endpoint, ref := NewEndpoint(client), a.Keys(redistest.Prefix(t), "t", "limit")
			_, err := endpoint.Take(t.Context(), ref, ones(hourly(t, a, 1, 4), 3))
			must(t, err)
			good, _ := stored(client, ref)
			at := strings.IndexByte(good, ';') + 1
			once := good[:at-1] + "," + good[at+13:at+20]
			cases := map[string][]string{
				"a list":         {"RPUSH", ref.head, "a"},
				"other text":     {"SET", ref.head, strings.Repeat("x", len(good))},
				"another magic":  {"SET", ref.head, "x" + good[1:]},
				"cut off":        {"SET", ref.head, good[:len(good)-1]},
				"no number":      {"SET", ref.head, strings.Replace(good, " ", "x", 1)},
				"later than all": {"SET", ref.head, damaged(good, "packed.touched", 0x7f)},
				"epoch 0":        {"SET", ref.head, letters[a] + "0" + good[2:]},
				"no sign":        {"SET", ref.head, strings.Replace(good, ";", "", 1)},
				"no columns":     {"SET", ref.head, good[:at]},
				"no permits":     {"SET", ref.head, once},
				"0 permits":      {"SET", ref.head, once + strings.Repeat("\x00", 7)},
				"more than all":  {"SET", ref.head, once + strings.Repeat("\x7f", 7)},
				"too long":       {"SET", ref.head, once + strings.Repeat("\x00", 6) + "\x01\x01"},
				"no date":        {"SET", ref.head, good[:at-1] + ",x"},
				"a sign only":    {"SET", ref.head, good[:at-1] + ":" + good[at:]},
			}
			own := []string{"log.count", "log.newest", "log.total", "log.before", "log.dead", "log.oldest"}
			switch a {
			case AlgorithmTokenBucket:
				own = []string{"tokens.date", "tokens.part", "tokens.since"}
			case AlgorithmLeakyBucket:
				own = []string{"leaky.date", "leaky.part"}
			}
			for _, column := range own {
				cases["no "+column] = []string{"SET", ref.head, damaged(good, column, 0x7f)}
			}
			for name, words := range cases {
				for _, operation := range []string{"take", "reserve", "settle", "peek", "clear", "drop"} {
					ours := words[0] == "SET" && strings.ContainsAny(strings.TrimPrefix(words[2], letters[a])[:1], "01")
					if operation == "drop" && ours {
						continue // damaged, but ours: Drop is the way to get rid of it
					}
					foreign(t, client, name+", "+operation, words, func() error {
						return operations[operation](t, endpoint, ref)
					})
				}
			}
			command(t, client, "SET", ref.head, good)
			must(t, endpoint.Drop(t.Context(), ref))
			if n, err := command(t, client, "EXISTS", ref.head, ref.Ledger()).AsInt64(); err != nil || n != 0 {
				t.Errorf("%d keys are left: %v", n, err)
			}
		})
	})
}

// TestPackedTimeToLive: state lives for two windows and keep after it is unused again, and denials,
// refunds and looks do not prolong it.
func TestPackedTimeToLive(t *testing.T) {
	overClock(t, func(t *testing.T, c *stillRedis, endpoint *Endpoint, ref ShardRef) {
		p := terms(t,
			Terms{Epoch: 1, Target: 10, Floor: 10, Window: time.Second, Keep: 10 * time.Second,
				Algorithm: ref.algorithm, Burst: 100})
		burst := max(p.burst, p.target)
		reply, err := endpoint.Take(t.Context(), ref, ones(p, burst))
		want := 12*time.Second + reply.Reset
		if err != nil || reply.Granted != burst || c.TTL(ref.head) != want ||
			reply.Reset < time.Duration(burst/10)*time.Second {
			t.Fatalf("lives %v, expected %v: %+v %v", c.TTL(ref.head), want, reply, err)
		}
		c.forward(100 * time.Millisecond)
		if reply, err = endpoint.Take(t.Context(), ref, ones(p, burst)); err != nil || reply.Granted == burst {
			t.Fatal(reply, err)
		}
		ttl := c.TTL(ref.head)
		c.forward(10 * time.Millisecond)
		if _, err := endpoint.Settle(t.Context(), ref,
			SettleRequest{Back: 1, At: reply.RefundAt(max(reply.Granted-1, 0))}); err != nil {
			t.Fatal(err)
		}
		if _, err := endpoint.Peek(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		must(t, endpoint.Clear(t.Context(), ref))
		if left := c.TTL(ref.head); left != ttl-10*time.Millisecond {
			t.Errorf("lives %v, was %v", left, ttl)
		}
		c.forward(want + time.Millisecond)
		if keys := c.Keys(); len(keys) != 0 {
			t.Errorf("%q live for ever", keys)
		}
	})
}

// TestPackedLifeIsRenewed: only the first grant of a sixteenth of a window prolongs the life of a
// state, and the others leave it long enough.
func TestPackedLifeIsRenewed(t *testing.T) {
	overClock(t, func(t *testing.T, c *stillRedis, endpoint *Endpoint, ref ShardRef) {
		const keep, slice = time.Minute, 100 * time.Millisecond
		offer := Terms{Epoch: 1, Target: 1_000, Floor: 1_000, Window: 16 * slice, Keep: keep, Algorithm: ref.algorithm}
		if ref.algorithm.Bursty() {
			offer.Burst = 1_000_000
		}
		p, kept := terms(t, offer), 0
		for i := range 200 {
			permits := int64(1)
			if i == 105 {
				// in the middle of a slice: what was granted is not forgotten, however long it
				// takes to come back
				permits = max(offer.Burst, offer.Target) / 2
			}
			before := c.TTL(ref.head)
			reply, err := endpoint.Take(t.Context(), ref, ones(p, permits))
			if err != nil || reply.Granted != permits {
				t.Fatalf("%d: %+v %v", i, reply, err)
			}
			life := c.TTL(ref.head)
			if life < keep+2*duration(p.window)-slice || life < keep+reply.Reset {
				t.Fatalf("%d: lives %v; all is free in %v", i, life, reply.Reset)
			}
			if life == before {
				kept++
			}
			c.forward(7 * time.Millisecond)
		}
		if kept < 80 {
			t.Fatalf("%d of 200 grants left the time to live as it was", kept)
		}
	})
}

// TestWhoIsBehindShortensNoLife: a shard that is left is remembered for as long as who moved its
// share said, also if somebody calls who has not heard of that.
func TestWhoIsBehindShortensNoLife(t *testing.T) {
	overClock(t, func(t *testing.T, c *stillRedis, endpoint *Endpoint, ref ShardRef) {
		before := terms(t, Terms{Epoch: 1, Target: 10, Floor: 10, Window: time.Second, Algorithm: ref.algorithm})
		left := terms(t, Terms{Epoch: 2, Window: time.Second, Keep: time.Minute, Algorithm: ref.algorithm,
			Retire: true})
		for i, p := range []*Proposal{before, left, before} {
			if i == 2 {
				c.forward(3 * time.Second) // what was granted is free, so the share can be given up
			}
			if _, err := endpoint.Take(t.Context(), ref, ones(p, 10)); err != nil {
				t.Fatal(err)
			}
		}
		if life := c.TTL(ref.head); life < 50*time.Second {
			t.Errorf("it lives %v", life)
		}
	})
}

// TestPackedClock: a step back neither blocks nor frees, a step forward frees at most the share,
// once.
func TestPackedClock(t *testing.T) {
	overPacked(t, func(t *testing.T, a Algorithm) {
		const hour = 3_600_000_000
		twin := newTwin(a)
		p := terms(t, Terms{Epoch: 1, Target: 10, Floor: 10, Window: time.Second, Algorithm: a})
		all := func(now int64) int64 { return twin.Take(now, ones(p, 100)).Granted }
		if n := all(epoch0); n != 10 {
			t.Fatalf("%d granted", n)
		}
		if n := all(epoch0 - hour); n != 0 {
			t.Errorf("a step back freed %d", n)
		}
		if n := all(epoch0 - hour + 1_000_000); n != 10 {
			t.Errorf("a second after a step back %d are free", n)
		}
		if n := all(epoch0 + hour); n != 10 {
			t.Errorf("a step forward freed %d", n)
		}
		if n := all(epoch0 + hour + 1); n != 0 {
			t.Errorf("a step forward freed %d more", n)
		}
	})
}

// TestNothingInUseExpires: whatever is taken, given back, charged or cleared, and whatever the
// limit becomes, the state lives until all that it counts is free.
func TestNothingInUseExpires(t *testing.T) {
	overClock(t, func(t *testing.T, c *stillRedis, e *Endpoint, ref ShardRef) {
		rapid.Check(t, func(r *rapid.T) {
			c.FlushAll()
			permits, last := rapid.Int64Range(1, 1000), TakeReply{}
			offer := Terms{Window: time.Hour, Algorithm: ref.algorithm}
			for range rapid.IntRange(2, 30).Draw(r, "steps") {
				if offer.Epoch == 0 || rapid.IntRange(0, 5).Draw(r, "change") == 0 {
					offer.Epoch, offer.Target = offer.Epoch+1, permits.Draw(r, "target")
					offer.Floor, offer.Burst = offer.Target, rapid.Int64Range(1, 3*offer.Target).Draw(r, "burst")
				}
				p, err := terms(r, offer), error(nil)
				switch rapid.IntRange(0, 6).Draw(r, "operation") {
				case 0:
					back := SettleRequest{Back: 1, At: last.RefundAt(max(last.Granted-1, 0))}
					_, err = e.Settle(t.Context(), ref, back)
				case 1:
					charge := SettleRequest{Charge: permits.Draw(r, "charged"), Owed: 3 * time.Hour, Proposal: p}
					_, err = e.Settle(t.Context(), ref, charge)
				case 2:
					err = e.Clear(t.Context(), ref)
				default:
					last, err = e.Take(t.Context(), ref, ones(p, permits.Draw(r, "asked")))
				}
				must(r, err)
				if peek, err := e.Peek(t.Context(), ref); err != nil || c.TTL(ref.head) < peek.Reset {
					r.Fatalf("it lives %v: %+v %v", c.TTL(ref.head), peek, err)
				}
				c.forward(rapid.SampledFrom([]time.Duration{0, time.Second, 3 * time.Minute, 40 * time.Minute,
					2 * time.Hour}).Draw(r, "gap"))
			}
		})
	})
}

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

// agree runs generated sequences on twins of each algorithm, and on shards of servers that have
// been up for so many seconds.
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
