package script

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// What one call leaves of shards that are asked the same is, byte for byte, what a call for each of
// them leaves, whatever was there before: nothing, a state, or what is left of one.
func TestShardsThatAreAskedTheSameComeToWhatTheyWouldAlone(t *testing.T) {
	together, alone := miniredis.RunT(t), miniredis.RunT(t)
	both := []*miniredis.Miniredis{together, alone}
	all, each := NewEndpoint(miniClient(t, together)), NewEndpoint(miniClient(t, alone))
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMicro(epoch0)
		for _, m := range both {
			m.FlushAll()
			m.SetTime(now)
		}
		requests := sameAsks(t)
		some := rapid.SliceOfN(rapid.SampledFrom(append(allAlgorithms, AlgorithmSlidingLog)), 1, 2).Draw(t,
			"algorithms")
		for range rapid.IntRange(1, 8).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 600_000).Draw(t, "later")) * time.Microsecond)
			for _, m := range both {
				m.SetTime(now)
			}
			var sections []Section
			for range rapid.IntRange(2, 8).Draw(t, "sections") {
				a := rapid.SampledFrom(some).Draw(t, "algorithm")
				key := a.Keys("", "t", fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "key")))
				if rapid.IntRange(0, 4).Draw(t, "head is lost") == 0 {
					together.Del(key.head)
					alone.Del(key.head)
				}
				request := rapid.SampledFrom(requests[a]).Draw(t, "request")
				sections = append(sections, Section{Ref: key, Request: request})
			}
			if err := all.TakeAll(ctx, sections); err != nil {
				t.Fatal(err)
			}
			for i, s := range sections {
				reply, err := each.Take(ctx, s.Ref, s.Request)
				if fmt.Sprint(err) != fmt.Sprint(s.Err) || err == nil && !reflect.DeepEqual(reply, s.Reply) {
					t.Fatalf("section %d, %v:\ntogether %+v, %v\nalone    %+v, %v", i, s.Ref.algorithm, s.Reply, s.Err,
						reply, err)
				}
			}
			if was, is := holdings(alone), holdings(together); was != is {
				t.Fatalf("together\n%s\nalone\n%s", is, was)
			}
		}
	})
}

// sameAsks draws, of each algorithm, the requests that its shards may be asked with.
func sameAsks(t *rapid.T) map[Algorithm][]*TakeRequest {
	requests := map[Algorithm][]*TakeRequest{}
	target := rapid.Int64Range(0, 9).Draw(t, "target")
	for _, a := range allAlgorithms {
		for range 2 {
			p, err := Terms{Epoch: rapid.Int64Range(1, 2).Draw(t, "epoch"), Target: target,
				Floor: rapid.Int64Range(0, target).Draw(t, "floor"), Window: time.Second, Keep: time.Hour, Algorithm: a,
				Quarantine: rapid.Bool().Draw(t, "quarantine")}.Proposal()
			if err != nil {
				t.Fatal(err)
			}
			r := &TakeRequest{Proposal: p,
				Relied: Relied{Known: time.Minute, Seen: rapid.IntRange(0, 3).Draw(t, "seen") == 0}}
			for range rapid.IntRange(0, 2).Draw(t, "groups") {
				r.Groups = append(r.Groups, Group{Size: rapid.Int64Range(1, 3).Draw(t, "size"), Count: 1})
			}
			for i := range r.Groups {
				if rapid.Bool().Draw(t, "named") {
					r.Groups[i].Caller = len(r.Callers)
					r.Callers = append(r.Callers, Caller{ID: fmt.Sprintf("%016d", i), Weight: 1000})
				}
			}
			requests[a] = append(requests[a], r)
		}
	}
	return requests
}

// holdings are all that a server holds, and for how long.
func holdings(m *miniredis.Miniredis) (text string) {
	keys := m.Keys()
	slices.Sort(keys)
	for _, key := range keys {
		text += fmt.Sprintln(key, m.TTL(key))
		if state, err := m.Get(key); err == nil {
			text += fmt.Sprintf("\t%q\n", tidy(state))
			continue
		}
		fields, _ := m.HKeys(key)
		for _, field := range fields {
			text += fmt.Sprintf("\t%s %q\n", field, m.HGet(key, field))
		}
	}
	return text
}

// A server that has been up for longer than the window is not asked for INFO, which costs more than
// the take.
func TestAFreshShardCostsNoInfo(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	endpoint := NewEndpoint(client)
	for i := range 3 {
		s := taking(t, AlgorithmSlidingLog, fmt.Sprint(i))
		var err error
		s.Request.Known = time.Hour
		if s.Request.Proposal, err = newProposal(1, 5, 5, time.Second, 0, true); err != nil {
			t.Fatal(err)
		}
		before := infos(t, client)
		if r, err := endpoint.Take(t.Context(), s.Ref, s.Request); err != nil || r.Status == Absent {
			t.Fatalf("%+v, %v", r, err)
		}
		if asked := infos(t, client) - before - 1; i > 0 && asked > 0 { // one of infos itself
			t.Errorf("key %d: %d", i, asked)
		}
	}
}

// infos is how often the server was asked for INFO, this time not counted.
func infos(t *testing.T, client rueidis.Client) int {
	t.Helper()
	text, err := client.Do(t.Context(), client.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	return callsOf(text, "info")
}

// callsOf is how often a command was called, by what INFO says.
func callsOf(text, name string) int {
	found := regexp.MustCompile(`cmdstat_` + name + `:calls=(\d+)`).FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		panic(err)
	}
	return n
}

// A server that answers TRYAGAIN has not executed the call. It is sent again, until it is executed
// once, or until it would take most of the time that the caller has.
func TestACallIsTriedAgainWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	endpoint, ref := NewEndpoint(miniClient(t, m)), ShardKeys("", "t", "limit")
	torn, calls := 3, 0
	m.Server().SetPreHook(func(peer *server.Peer, cmd string, _ ...string) bool {
		if cmd != "EVALSHA" && cmd != "EVAL" {
			return false
		}
		if calls++; calls > torn {
			return false
		}
		peer.WriteError("TRYAGAIN Multiple keys request during rehashing of slot")
		return true
	})
	p := proposal(t, 1, 10, time.Hour)
	if r, err := endpoint.Take(t.Context(), ref, ones(p, 1)); err != nil || r.Used != 1 {
		t.Errorf("%+v, %v after %d calls", r, err, calls)
	}
	if calls != torn+1 && calls != torn+2 { // a script that is not there costs one more
		t.Errorf("%d calls", calls)
	}
	torn = 1 << 30
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := endpoint.Take(ctx, ref, ones(p, 1)); !NotExecuted(err) || ctx.Err() != nil {
		t.Errorf("%v", err)
	}
}

// Keys of a shard may be at two servers for a moment, and in a slot on its way a server makes no
// key that is not there. Calls are not executed then, nothing is taken for lost, and nothing is
// granted twice.
func TestKeysOnTwoServersAreNotTakenForLost(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, 2, 0)
	masters := cluster.Masters()
	for i, first := range []func(ShardRef) string{ShardRef.Head, ShardRef.Ledger} {
		ref, p := ShardKeys("", "two"+strconv.Itoa(i), "limit"), proposal(t, 1, 100, time.Hour)
		endpoint := NewEndpoint(cluster.Client(t))
		granted, request := int64(0), ones(p, 1)
		take := func() error {
			r, err := endpoint.Take(t.Context(), ref, request)
			if err == nil {
				if granted++; r.Used != granted {
					t.Fatalf("%d used of %d granted", r.Used, granted)
				}
			} else if !NotExecuted(err) {
				t.Fatal(err)
			}
			return err
		}
		for range 5 {
			if err := take(); err != nil {
				t.Fatal(err)
			}
		}
		slot, err := command(t, masters[0].Client(t), "CLUSTER", "KEYSLOT", ref.Head()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		from := int(slot) * 2 / 16384
		migration := cluster.BeginMigration(int(slot), int(slot), 1-from)
		_ = take() // there is no ledger
		to := masters[1-from].Addr()
		command(t, masters[from].Client(t), "MIGRATE", "127.0.0.1", to[len("127.0.0.1:"):], first(ref), "0", "5000")
		if err := take(); err != nil {
			t.Errorf("the calm take needs the state only: %v", err)
		}
		request = rare(request)
		if take() == nil {
			t.Error("a call was executed although the keys are on two servers")
		}
		request = ones(p, 1)
		migration.MoveKeys()
		_ = take()
		migration.Finish()
		for range 5 {
			if err := take(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
