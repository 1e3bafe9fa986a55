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
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// crowdOfShards are shards of all algorithms on one server, each with its twin.
type crowdOfShards struct {
	stages []*stage
	twins  []*twin
	refs   []ShardRef
	asked  map[Algorithm]*TakeRequest // the last one
}

func newCrowd(t *rapid.T) *crowdOfShards {
	c := &crowdOfShards{asked: map[Algorithm]*TakeRequest{}}
	for i := range rapid.IntRange(1, 6).Draw(t, "shards") {
		a := rapid.SampledFrom(allAlgorithms).Draw(t, "algorithm")
		c.stages = append(c.stages, newStage(t, a))
		c.twins = append(c.twins, newTwin(a))
		c.refs = append(c.refs, a.Keys("", "t", fmt.Sprint("limit ", i)))
	}
	return c
}

// sections draws a call at a time: of each shard none, one or two sections. Many ask the same.
func (c *crowdOfShards) sections(t *rapid.T, now int64) (sections []Section, of []int) {
	for i, s := range c.stages {
		s.node = now
		if rapid.IntRange(0, 5).Draw(t, "another limit") == 0 {
			s.reshape()
		}
		a := c.refs[i].algorithm
		for range rapid.IntRange(0, 2).Draw(t, "sections") {
			if c.asked[a] == nil || rapid.Bool().Draw(t, "another request") {
				c.asked[a] = s.request()
			}
			sections, of = append(sections, Section{Ref: c.refs[i], Request: c.asked[a]}), append(of, i)
		}
	}
	return sections, of
}

// What is taken from several shards in one call is, byte for byte, what would be taken from each
// alone, whatever was there before: nothing, a state, or what is left of one.
func TestTakesFromSeveralShardsAgreeWithTheirTwins(t *testing.T) {
	m := miniredis.RunT(t)
	endpoint := NewEndpoint(miniClient(t, m))
	rapid.Check(t, func(t *rapid.T) {
		m.FlushAll()
		c := newCrowd(t)
		now := c.stages[0].node
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			c.stages[0].advance()
			now = max(now, c.stages[0].node)
			m.SetTime(time.UnixMicro(now))
			if i := rapid.IntRange(0, 8*len(c.refs)).Draw(t, "lost"); i < len(c.refs) {
				m.Del(c.refs[i].head)
				m.Del(c.refs[i].Ledger())
				c.twins[i] = newTwin(c.refs[i].algorithm)
			}
			sections, of := c.sections(t, now)
			must(t, endpoint.TakeAll(context.Background(), sections))
			for k, s := range sections {
				want := c.twins[of[k]].Take(now, s.Request)
				c.stages[of[k]].saw(want)
				if s.Err != nil || !reflect.DeepEqual(want, s.Reply) {
					t.Fatalf("section %d of %d, %v:\ntwin   %+v\nserver %+v, %v", k, len(sections), s.Ref.algorithm,
						want, s.Reply, s.Err)
				}
			}
			for i, ref := range c.refs {
				twin := c.twins[i]
				if head, ledger := stored(endpoint.client, ref); head != twin.head() ||
					ledger != fmt.Sprint(twin.fair.ledger.Fields()) {
					t.Fatalf("%v:\ntwin   %q %q\nserver %q %q", ref.algorithm, twin.head(), twin.fair.ledger.Fields(),
						head, ledger)
				}
			}
		}
	})
}

func taking(t *testing.T, a Algorithm, name string) Section {
	t.Helper()
	p := terms(t, Terms{Epoch: 1, Target: 5, Floor: 5, Window: time.Minute, Algorithm: a})
	return Section{Ref: a.Keys("", "t", name), Request: &TakeRequest{Proposal: p, Groups: []Group{{Size: 2, Count: 2}}}}
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
	invalid := taking(t, AlgorithmSlidingLog, "invalid")
	invalid.Request.Groups[0].Size = 0
	unnamed := taking(t, AlgorithmSlidingLog, "unnamed")
	unnamed.Ref = ShardRef{}
	all := []Section{foreign, sound, invalid, torn, unnamed, raising, taking(t, AlgorithmLeakyBucket, "another"), sound}
	must(t, endpoint.TakeAll(ctx, all))
	for i, want := range []error{ErrForeignState, nil, ErrInvalidRequest, ErrForeignState, ErrInvalidRequest,
		ErrForeignState, nil, nil} {
		if s := all[i]; !errors.Is(s.Err, want) || (s.Err == nil) != (want == nil) {
			t.Errorf("section %d: %v, want %v", i, s.Err, want)
		}
	}
	if all[1].Reply.Granted != 4 || all[6].Reply.Granted != 4 || all[7].Reply.Granted != 0 || all[7].Reply.Before != 1 {
		t.Errorf("granted %+v, %+v, %+v", all[1].Reply, all[6].Reply, all[7].Reply)
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
	sections := make([]Section, 5)
	for i := range sections {
		sections[i] = taking(t, AlgorithmTokenBucket, "limit")
		sections[i].Request.Rare = true
		sections[i].Request.Groups[0] = Group{Size: 1, Count: int64(i + 1)}
	}
	must(t, NewEndpoint(client).TakeAll(t.Context(), sections))
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
func tagged(t *testing.T, shards int) (sections []Section) {
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
		must(t, endpoint.TakeAll(t.Context(), sections))
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
	must(t, endpoint.TakeAll(t.Context(), sections))
	cluster.Masters()[0].Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	must(t, endpoint.TakeAll(ctx, sections))
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
