package shardlimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/shard"
)

// limitHomeOn finds a name whose record belongs to the last of the nodes, and the places of the
// record with all nodes and without the last.
func limitHomeOn(last string, nodes []shardlimit.Node) (name string, homes, without []shard.Location) {
	var all []shard.Node
	for _, n := range nodes {
		all = append(all, shard.Node{Name: n.Name})
	}
	for i := 0; ; i++ {
		name = fmt.Sprint("l", i)
		if homes = shard.Anchors("n:"+name, all); homes[0].Node == last {
			rest := slices.DeleteFunc(slices.Clone(all), func(n shard.Node) bool { return n.Name == last })
			return name, homes, shard.Anchors("n:"+name, rest)
		}
	}
}

// storedRecord is the record of a limit as one server keeps it.
type storedRecord struct{ key, dump string }

func serverAt(t *testing.T, servers []*redistest.Server, place shard.Location) *redistest.Server {
	t.Helper()
	i, err := strconv.Atoi(strings.TrimPrefix(place.Node, "n"))
	if err != nil {
		t.Fatal(err)
	}
	return servers[i]
}

func saveRecord(t *testing.T, servers []*redistest.Server, place shard.Location, name string) storedRecord {
	t.Helper()
	c := serverAt(t, servers, place).Client(t)
	keys, err := c.Do(t.Context(), c.B().Keys().Pattern("*{"+shard.Tag(place.Slot)+"}:r:n:"+name).Build()).AsStrSlice()
	if err != nil || len(keys) != 1 {
		t.Fatalf("records of %s on %s: %v, %v", name, place.Node, keys, err)
	}
	dump, err := c.Do(t.Context(), c.B().Dump().Key(keys[0]).Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	return storedRecord{keys[0], dump}
}

func restoreRecord(t *testing.T, servers []*redistest.Server, place shard.Location, record storedRecord) {
	t.Helper()
	c := serverAt(t, servers, place).Client(t)
	restore := c.B().Restore().Key(record.key).Ttl(time.Hour.Milliseconds()).SerializedValue(record.dump).Replace().Build()
	if err := c.Do(t.Context(), restore).Error(); err != nil {
		t.Fatal(err)
	}
}

// A process that had not seen yet where a limit is anchored has brought its own, newer layout to
// its own anchor and to a copy. Who joins later and finds it there, but cannot read that anchor,
// must not go on from it as if nobody used the other one.
func TestALimitInUseIsNotCoveredUpByACopy(t *testing.T) {
	t.Parallel()
	f, servers := independent(t, 4)
	elsewhere, others := independent(t, 4)
	elsewhere.prefix = f.prefix
	name, homes, older := limitHomeOn("n3", f.nodes)
	limit := shardlimit.Limit{Permits: 40, Per: time.Hour, Shards: 4}
	var total int64
	spend := func(nodes ...shardlimit.Node) {
		l := limiter(t, f.with(nodes...).client(t), name, limit)
		for range 3 {
			d, err := l.AllowUpTo(t.Context(), limit.Permits)
			if err != nil {
				t.Error(err)
			}
			total += d.Granted
		}
	}
	spend(f.nodes[:3]...)
	limiter(t, elsewhere.client(t), name, limit)
	for _, home := range homes {
		// the newer layout, at its anchor and at a copy that is not the anchor of the older one
		if home != older[0] {
			restoreRecord(t, servers, home, saveRecord(t, others, home, name))
		}
	}
	spend(f.nodes[:3]...)
	spend(f.nodes...)
	spend(f.nodes[:3]...)
	if total != limit.Permits {
		t.Errorf("%d of %d permits were granted", total, limit.Permits)
	}
}

// A copy from before the anchor moved away from a node that is gone by now is no second layout:
// nobody could ask its shards.
func TestACopyFromBeforeAMoveIsReplaced(t *testing.T) {
	t.Parallel()
	f, servers := independent(t, 4)
	name, homes, _ := limitHomeOn("n3", f.nodes)
	limit := shardlimit.Limit{Permits: 40, Per: 100 * time.Millisecond, Shards: 4}
	c := f.client(t)
	l := limiter(t, c, name, limit)
	old := saveRecord(t, servers, homes[1], name)
	if err := c.SetNodes(t.Context(), append(slices.Clone(f.nodes[:3]), draining(f.nodes[3]))); err != nil {
		t.Fatal(err)
	}
	if err := c.Rebalance(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitThat(t, "settled", func() bool { return peek(t, l).Settled })
	moved := peek(t, l)
	c.Close()
	servers[3].Kill()
	copied := homes[1]
	if at := shard.Anchors("n:"+name, []shard.Node{{Name: "n0"}, {Name: "n1"}, {Name: "n2"}}); at[0] == copied {
		copied, old.key = homes[2], saveRecord(t, servers, homes[2], name).key // not the place where it is anchored now
	}
	restoreRecord(t, servers, copied, old)
	l = limiter(t, f.with(f.nodes[:3]...).client(t), name, limit)
	if st := peek(t, l); !st.Settled || st.Epoch != moved.Epoch {
		t.Errorf("epoch %d, settled %v; it was %d", st.Epoch, st.Settled, moved.Epoch)
	}
	if mended := saveRecord(t, servers, copied, name); mended.dump == old.dump {
		t.Error("the copy is still the old one")
	}
}

// laggard is a Redis client of a process to which the places of records are slow, and sometimes out
// of reach.
type laggard struct{ rueidis.Client }

func (l laggard) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := cmd.Commands() // EVALSHA name number-of-keys key ...
	if (words[0] != "EVAL" && words[0] != "EVALSHA") || !strings.Contains(words[3], "}:r:") {
		return l.Client.Do(ctx, cmd)
	}
	if rand.Float64() < 0.1 {
		return l.Client.Do(ctx, l.Client.B().Arbitrary("NO-SUCH-COMMAND").Build())
	}
	lag := func() { time.Sleep(time.Duration(rand.ExpFloat64() * float64(4*time.Millisecond))) }
	lag()
	defer lag()
	return l.Client.Do(ctx, cmd)
}

// Many processes, with the old list of nodes and with the new one, declare limits at once, and what
// they read and write comes late or not at all. Nobody uses a layout of its own beside that of
// others.
func TestDeclarationsThatMissEachOther(t *testing.T) {
	t.Parallel()
	f, servers := independent(t, 4)
	var clients []*shardlimit.Client
	for i := range 8 {
		p := f.with()
		for k, s := range servers[:3+i%2] {
			p.nodes = append(p.nodes, shardlimit.Node{Name: f.nodes[k].Name, Client: laggard{s.Client(t)}})
		}
		clients = append(clients, p.client(t))
	}
	limit := shardlimit.Limit{Permits: 60, Per: time.Hour, Shards: 4}
	var rounds sync.WaitGroup
	for round := range 40 {
		rounds.Go(func() {
			var total atomic.Int64
			var wg sync.WaitGroup
			for _, c := range clients {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					l, err := c.Limiter(ctx, fmt.Sprint("l", round), limit)
					if err != nil {
						t.Error(err)
						return
					}
					for range 8 {
						d, _ := l.AllowUpTo(ctx, limit.Permits) // fails as long as the limit is not known
						total.Add(d.Granted)
					}
				})
			}
			wg.Wait()
			if total.Load() > limit.Permits {
				t.Errorf("round %d: %d of %d permits were granted", round, total.Load(), limit.Permits)
			}
		})
		if round%8 == 7 {
			rounds.Wait()
		}
	}
}

// reluctant is a Redis client of a process whose first calls for records fail.
type reluctant struct {
	rueidis.Client
	left *atomic.Int64
}

func (d reluctant) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := cmd.Commands()
	if (words[0] == "EVAL" || words[0] == "EVALSHA") && strings.Contains(words[3], "}:r:") && d.left.Add(-1) >= 0 {
		return d.Client.Do(ctx, d.Client.B().Arbitrary("NO-SUCH-COMMAND").Build())
	}
	return d.Client.Do(ctx, cmd)
}

// A limit was just begun, and a process that would anchor it on a node that only it knows cannot
// reach the other places for a moment. It waits for them.
func TestPlacesOfANewLimitAreWaitedFor(t *testing.T) {
	t.Parallel()
	f, servers := independent(t, 4)
	name, _, _ := limitHomeOn("n3", f.nodes)
	limit := shardlimit.Limit{Permits: 40, Per: time.Hour, Shards: 4}
	p := f.with()
	for i, s := range servers {
		left := new(atomic.Int64)
		if i < 3 {
			left.Store(2) // the reading and the writing of a copy
		}
		p.nodes = append(p.nodes, shardlimit.Node{Name: f.nodes[i].Name, Client: reluctant{s.Client(t), left}})
	}
	var total int64
	for _, c := range []*shardlimit.Client{f.with(f.nodes[:3]...).client(t), p.client(t)} {
		l := limiter(t, c, name, limit)
		for range 3 {
			d, err := l.AllowUpTo(t.Context(), limit.Permits)
			if err != nil {
				t.Error(err)
			}
			total += d.Granted
		}
	}
	if total != limit.Permits {
		t.Errorf("%d of %d permits were granted", total, limit.Permits)
	}
}

// A limit begins while one node is away. A process that lists all nodes but another one comes when
// it is back, and finds the record on a node that was there.
func TestALimitThatBeganWhileANodeWasAwayIsFoundByWhoListsFewer(t *testing.T) {
	for _, nodes := range []int{3, 4} {
		for _, last := range []string{"n0", "n1", "n2"} {
			t.Run(fmt.Sprintf("%d nodes, anchored on %s", nodes, last), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { beginsWhileANodeIsAway(t, nodes, last) })
			})
		}
	}
}

func beginsWhileANodeIsAway(t *testing.T, nodes int, last string) {
	f, broken := bubbledNodes(t, nodes)
	name, _, _ := limitHomeOn(last, f.nodes)
	limit := shardlimit.Limit{Permits: 40, Per: time.Hour, Shards: 2}
	for away := range nodes {
		for unlisted := range nodes {
			if away == unlisted || f.nodes[away].Name == last { // without its anchor it cannot begin
				continue
			}
			began := f.client(t)
			broken[away].down.Store(true)
			limiters := []*shardlimit.Limiter{limiter(t, began, name, limit)}
			broken[away].down.Store(false)
			time.Sleep(2 * time.Second) // until its breaker lets a call through
			_, _ = limiters[0].Peek(t.Context())
			time.Sleep(time.Second)
			joins := f.with(slices.Delete(slices.Clone(f.nodes), unlisted, unlisted+1)...).client(t)
			limiters = append(limiters, limiter(t, joins, name, limit))
			var total int64
			for _, l := range limiters {
				d, err := l.AllowUpTo(t.Context(), limit.Permits)
				if err != nil {
					t.Error(err)
				}
				total += d.Granted
			}
			if total > limit.Permits {
				t.Errorf("%s was away, %s is not listed: %d of %d permits were granted", f.nodes[away].Name,
					f.nodes[unlisted].Name, total, limit.Permits)
			}
			if err := limiters[0].Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			began.Close()
			joins.Close()
		}
	}
}
