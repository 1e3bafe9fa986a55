package script

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// member is one of several shards on one server.
type member struct {
	*stage
	twin *twin
	ref  ShardRef
}

// What is taken from several shards in one call is, byte for byte, what would be taken from each
// alone, whatever was there before: nothing, a state, or what is left of one.
func TestTakesFromSeveralShardsAgreeWithTheirTwins(t *testing.T) {
	m := miniredis.RunT(t)
	endpoint := NewEndpoint(miniClient(t, m))
	rapid.Check(t, func(t *rapid.T) {
		m.FlushAll()
		var shards []*member
		for i := range rapid.IntRange(1, 6).Draw(t, "shards") {
			a := rapid.SampledFrom(allAlgorithms).Draw(t, "algorithm")
			shards = append(shards, &member{newStage(t, a), newTwin(a), a.Keys("", "t", fmt.Sprint("limit ", i))})
		}
		now, asked := shards[0].node, map[Algorithm]*TakeRequest{} // the last one
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			shards[0].advance()
			now = max(now, shards[0].node)
			m.SetTime(time.UnixMicro(now))
			if i := rapid.IntRange(0, 8*len(shards)).Draw(t, "lost"); i < len(shards) {
				m.Del(shards[i].ref.head)
				m.Del(shards[i].ref.Ledger())
				shards[i].twin = newTwin(shards[i].algorithm)
			}
			var sections []*Section // of each shard none, one or two; many ask the same
			var of []*member
			for _, s := range shards {
				s.node = now
				if rapid.IntRange(0, 5).Draw(t, "another limit") == 0 {
					s.reshape()
				}
				for range rapid.IntRange(0, 2).Draw(t, "sections") {
					if asked[s.algorithm] == nil || rapid.Bool().Draw(t, "another request") {
						asked[s.algorithm] = s.request()
					}
					sections = append(sections, &Section{Ref: s.ref, Request: asked[s.algorithm]})
					of = append(of, s)
				}
			}
			endpoint.TakeAll(context.Background(), sections)
			for k, s := range sections {
				want := of[k].twin.Take(now, s.Request)
				of[k].saw(want)
				if s.Err != nil || !reflect.DeepEqual(want, s.Reply) {
					t.Fatalf("section %d of %d, %v:\ntwin   %+v\nserver %+v, %v", k, len(sections), s.Ref.algorithm,
						want, s.Reply, s.Err)
				}
			}
			for _, s := range shards {
				head, ledger := stored(endpoint.client, s.ref)
				if had, owed := s.twin.head(), s.twin.accounts(); head != had || ledger != owed {
					t.Fatalf("%v:\ntwin   %q %q\nserver %q %q", s.algorithm, had, owed, head, ledger)
				}
			}
		}
	})
}

func taking(t *testing.T, a Algorithm, name string) *Section {
	t.Helper()
	p := terms(t, Terms{Epoch: 1, Target: 5, Floor: 5, Window: time.Minute, Algorithm: a})
	return &Section{Ref: a.Keys("", "t", name), Request: &TakeRequest{Proposal: p, Groups: []Group{{Size: 2, Count: 2}}}}
}

// One shard that cannot be taken from harms no other, whatever is wrong with it.
func TestAShardThatFailsHarmsNoOtherOfItsCall(t *testing.T) {
	ctx := context.Background()
	client := redistest.Standalone(t).Client(t)
	endpoint := NewEndpoint(client)
	sound, foreign, torn, raising := taking(t, AlgorithmSlidingLog, "sound"),
		taking(t, AlgorithmTokenBucket, "foreign"), taking(t, AlgorithmSlidingLog, "torn"),
		taking(t, AlgorithmFixedWindow, "raising")
	command(t, client, "SET", foreign.Ref.head, "somebody's")
	command(t, client, "RPUSH", torn.Ref.head, "a list")
	// What begins like a state of ours and holds no numbers.
	command(t, client, "SET", raising.Ref.head, letters[AlgorithmFixedWindow]+strings.Repeat("x", 400))
	unnamed := taking(t, AlgorithmSlidingLog, "unnamed")
	unnamed.Ref = ShardRef{}
	all := []*Section{foreign, sound, torn, unnamed, raising, taking(t, AlgorithmLeakyBucket, "another"),
		taking(t, AlgorithmSlidingLog, "sound")}
	endpoint.TakeAll(ctx, all)
	for i, want := range []error{ErrForeignState, nil, ErrForeignState, ErrInvalidRequest,
		ErrForeignState, nil, nil} {
		if s := all[i]; !errors.Is(s.Err, want) || (s.Err == nil) != (want == nil) {
			t.Errorf("section %d: %v, want %v", i, s.Err, want)
		}
	}
	if all[1].Reply.Granted != 4 || all[5].Reply.Granted != 4 || all[6].Reply.Granted != 0 || all[6].Reply.Before != 1 {
		t.Errorf("granted %+v, %+v, %+v", all[1].Reply, all[5].Reply, all[6].Reply)
	}
	state := (*StateError)(nil)
	if !errors.As(all[0].Err, &state) || state.Key != foreign.Ref.head {
		t.Errorf("%v does not name the key", all[0].Err)
	}
}

// trips is a client that counts what it waits for.
type trips struct {
	rueidis.Client
	n int
}

func (c *trips) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	c.n++
	return c.Client.Do(ctx, cmd)
}

func (c *trips) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	if len(multi) > 0 {
		c.n++
	}
	return c.Client.DoMulti(ctx, multi...)
}

// The first takes of a shard wait for one of them, which brings the script, and then go together.
func TestTheFirstTakesOfAScriptTakeTwoTrips(t *testing.T) {
	client := &trips{Client: miniClient(t, miniredis.RunT(t))}
	sections := make([]*Section, 5)
	for i := range sections {
		sections[i] = taking(t, AlgorithmTokenBucket, "limit")
		sections[i].Request.Rare = true
		sections[i].Request.Groups[0] = Group{Size: 1, Count: int64(i + 1)}
	}
	NewEndpoint(client).TakeAll(t.Context(), sections)
	for i, want := range []int64{1, 2, 2, 0, 0} { // of five, in their order
		if s := sections[i]; s.Err != nil || s.Reply.Granted != want {
			t.Errorf("section %d: %d granted, %v", i, s.Reply.Granted, s.Err)
		}
	}
	if client.n > 2 {
		t.Errorf("%d round trips", client.n)
	}
}

// tagged is a section for each of so many shards, which have a hash tag each.
func tagged(t *testing.T, shards int) (sections []*Section) {
	for i := range shards {
		s := taking(t, AlgorithmSlidingLog, "limit")
		s.Ref = ShardKeys("", fmt.Sprint("tag ", i), "limit")
		sections = append(sections, s)
	}
	return sections
}

// In a cluster, shards of several slots are taken from one by one: no command can name their keys
// together.
func TestTakesFromShardsOfSeveralSlots(t *testing.T) {
	cluster := redistest.NewCluster(t, 3, 0)
	endpoint := NewEndpoint(cluster.Client(t))
	sections := append(tagged(t, 10), tagged(t, 10)...)
	for i, want := range []int64{4, 0, 0} { // five permits a shard, asked for by twos, and each shard twice
		if i == 2 { // a cluster that lost its scripts says so of each command
			for _, s := range cluster.Servers() {
				command(t, s.Client(t), "SCRIPT", "FLUSH")
			}
		}
		endpoint.TakeAll(t.Context(), sections)
		sum := int64(0)
		for _, s := range sections {
			if s.Err != nil {
				t.Fatal(s.Err)
			}
			sum += s.Reply.Granted
		}
		if sum != 10*want {
			t.Errorf("call %d: %d permits of ten shards, want %d", i, sum, 10*want)
		}
	}
}

// A command of a pipeline that fails, fails alone: here the one for the shards of a master that is
// gone.
func TestTakesFromAClusterThatLostAMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, 3, 0, redistest.Args("--cluster-require-full-coverage", "no"))
	endpoint := NewEndpoint(cluster.Client(t))
	sections := tagged(t, 30)
	endpoint.TakeAll(t.Context(), sections)
	cluster.Masters()[0].Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	endpoint.TakeAll(ctx, sections)
	failed := 0
	for _, s := range sections {
		if s.Err != nil {
			failed++
		} else if s.Reply.Status != OK || s.Reply.Share != 5 {
			t.Errorf("%+v", s.Reply)
		}
	}
	if failed == 0 || failed > 20 {
		t.Errorf("%d of 30 failed, a third lies on the master", failed)
	}
}

// A server that has been up for longer than the window is not asked for INFO, which costs more than
// the take.
func TestAFreshShardCostsNoInfo(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	endpoint := NewEndpoint(client)
	for i := range 3 {
		s := taking(t, AlgorithmSlidingLog, fmt.Sprint(i))
		s.Request.Known, s.Request.Proposal = time.Hour, proposal(t, 1, 5, time.Second)
		before := calls(t, client, "info")
		if r, err := endpoint.Take(t.Context(), s.Ref, s.Request); err != nil || r.Status == Absent {
			t.Fatalf("%+v, %v", r, err)
		}
		if asked := calls(t, client, "info") - before - 1; i > 0 && asked > 0 { // one of calls itself
			t.Errorf("key %d: %d", i, asked)
		}
	}
}

// A server that answers TRYAGAIN has not executed the call. It is sent again, until it is executed
// once, or until it would take most of the time that the caller has.
func TestACallIsTriedAgainWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	endpoint, ref := NewEndpoint(miniClient(t, m)), ShardKeys("", "t", "limit")
	for range 4 { // the server loads the scripts of takes
		must(t, take(t, endpoint, ShardKeys("", "t", "another"), Caller{ID: "aaaaaaaaaaaaaaaa", Weight: 1000}))
	}
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
	if calls != torn+2 { // the first that creates nothing leaves it to the full take
		t.Errorf("%d calls", calls)
	}
	torn = 1 << 30
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	if _, err := endpoint.Take(ctx, ref, ones(p, 1)); !NotExecuted(err) || ctx.Err() != nil {
		t.Errorf("%v", err)
	}
}
