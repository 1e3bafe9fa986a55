package script

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// scene plays a transcript in steps of virtual time. Each participant is a client that keeps away
// from the shard until the hint of its last reply and turns away what it has no permits for; it
// tells the shard of that with its next call. Nothing waits.
type scene struct {
	*transcript
	rng     *rand.Rand
	plan    *Proposal
	clients []sceneClient
	names   int
}

// sceneClient is a participant on the stage.
type sceneClient struct {
	rate   float64 // permits per second
	due    float64 // calls that have come up since the last step
	caller Caller
	closed int64 // until then it keeps away, us
	got    []int64
}

// sceneStep is how much time passes from one step to the next.
func (s *transcript) sceneStep() time.Duration { return s.window / 1000 }

// play returns what each participant got in each step.
func (s *transcript) play(plan *Proposal, take func(now int64, r *TakeRequest) (TakeReply, error)) ([][]int64, error) {
	stage := &scene{transcript: s, rng: rand.New(rand.NewPCG(1, 2)), plan: plan}
	for _, p := range s.people {
		c := sceneClient{due: stage.rng.Float64(), caller: Caller{Weight: p.weight}}
		stage.rename(&c)
		stage.clients = append(stage.clients, c)
	}
	end, demands := time.Duration(0), s.demands
	for _, want := range s.wants {
		end = max(end, want.to)
	}
	for since := time.Duration(0); since < end; since += s.sceneStep() {
		for ; len(demands) > 0 && demands[0].from <= since; demands = demands[1:] {
			stage.clients[demands[0].who].rate = demands[0].rate
		}
		for _, i := range stage.rng.Perm(len(stage.clients)) {
			granted, err := stage.step(i, 1_700_000_000_000_000+since.Microseconds(), take)
			if err != nil {
				return nil, fmt.Errorf("after %v: %w", since, err)
			}
			stage.clients[i].got = append(stage.clients[i].got, granted)
		}
	}
	var got [][]int64
	for _, c := range stage.clients {
		got = append(got, c.got)
	}
	return got, nil
}

// rename gives a client a name that was never seen.
func (s *scene) rename(c *sceneClient) {
	s.names++
	c.caller.ID, c.caller.Unmet, c.closed = fmt.Sprintf("%016x", s.names), 0, 0
}

// step lets a client make the calls that have come up.
func (s *scene) step(i int, now int64, take func(int64, *TakeRequest) (TakeReply, error)) (granted int64, err error) {
	c, size := &s.clients[i], s.people[i].size
	c.due += c.rate * s.sceneStep().Seconds() / float64(size)
	calls := int64(c.due)
	c.due -= float64(calls)
	if s.people[i].haste {
		c.closed = 0
	}
	if !s.people[i].newName {
		return s.ask(c, now, size, calls, take)
	}
	for ; calls > 0 && err == nil; calls-- {
		var got int64
		s.rename(c)
		got, err = s.ask(c, now, size, 1, take)
		granted += got
	}
	return granted, err
}

// ask makes calls at once, in one take unless the client keeps away.
func (s *scene) ask(c *sceneClient, now, size, calls int64,
	take func(int64, *TakeRequest) (TakeReply, error)) (int64, error) {
	if calls == 0 {
		return 0, nil
	}
	if now < c.closed {
		c.caller.Unmet += calls * size * 1000
		return 0, nil
	}
	reply, err := take(now,
		&TakeRequest{Proposal: s.plan, Groups: []Group{{Size: size, Count: calls}}, Callers: []Caller{c.caller}})
	if err != nil {
		return 0, err
	}
	c.caller.Unmet = (calls*size - reply.Granted) * 1000
	retry := reply.Retry
	if reply.Contended {
		retry = max(retry, reply.Callers[0])
	}
	c.closed = now + retry.Microseconds()
	return reply.Granted, nil
}

// within returns how many permits per second came in a period.
func (s *transcript) within(got [][]int64, e *expectation) float64 {
	sum := int64(0)
	for who, steps := range got {
		for i, n := range steps {
			if at := time.Duration(i) * s.sceneStep(); (who == e.who || e.who < 0) && at >= e.from && at < e.to {
				sum += n
			}
		}
	}
	return float64(sum) / (e.to - e.from).Seconds()
}

// judge compares what came out with what must.
func (s *transcript) judge(t *testing.T, got [][]int64) {
	for i := range s.wants {
		e := &s.wants[i]
		r := s.within(got, e)
		t.Logf("line %d: %-40s got %.1f/s", e.line, e.text, r)
		if r < e.least || r > e.most {
			t.Errorf("line %d: %s: but it got %.1f/s", e.line, e.text, r)
		}
	}
}

// TestScenarios plays every transcript of testdata/fairness (see [transcript] for how to read and
// write one) on the Go twin and, unless it says otherwise, on a real Redis whose scripts are told
// the time. Both must give the same in every step.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/fairness/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseTranscript(string(text))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		plan, err := newProposal(1, s.permits, s.permits, s.window, time.Minute, true)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		twin := &slidingTwin{}
		want, _ := s.play(plan, func(now int64, r *TakeRequest) (TakeReply, error) { return twin.Take(now, r), nil })
		t.Run(name+"/twin", func(t *testing.T) { s.judge(t, want) })
		if s.twinOnly {
			continue
		}
		t.Run(name+"/redis", func(t *testing.T) {
			server := clocked{client: redistest.Shared(t).Client(t), uptime: 1_000_000,
				ref: ShardKeys(redistest.Prefix(t), "t", "limit")}
			got, err := s.play(plan, server.take)
			if err != nil {
				t.Fatal(err)
			}
			s.judge(t, got)
			if !reflect.DeepEqual(got, want) {
				t.Error("Redis and the twin did not give the same in every step")
			}
		})
	}
}
