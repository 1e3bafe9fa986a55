package script

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// one numbers the round of most of these tests.
var one = majority.Ballot{Round: 1, Proposer: 1}

// reader is a read by a participant.
func reader(name string) VoteRequest {
	return VoteRequest{Kind: majority.Read, Participant: name, ParticipantTTL: 10 * time.Second, Keep: time.Minute}
}

// elect has a place that is alone, or has lost its vote, take a value.
func elect(t *testing.T, e *Endpoint, ref VoteRef, r VoteRequest) VoteReply {
	t.Helper()
	if r.Ballot == (majority.Ballot{}) {
		r.Ballot = one
	}
	r.Kind = majority.Prepare
	reply, err := e.Vote(t.Context(), ref, r)
	if err != nil || !reply.OK {
		t.Fatalf("%+v: %+v %v", r, reply, err)
	}
	r.Kind, r.Mark = majority.Restore, reply.Mark
	if reply, err = e.Vote(t.Context(), ref, r); err != nil || !reply.OK {
		t.Fatalf("%+v: %+v %v", r, reply, err)
	}
	return reply
}

// What is not ours under a key of a place, or damaged, is told, and left alone.
func TestAForeignPlaceIsTold(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		ctx, endpoint, ref := t.Context(), NewEndpoint(client), VoteKey("test:", "1", "g", "nodes")
		elect(t, endpoint, ref, VoteRequest{Value: "v"})
		good, err := command(t, client, "GET", ref.Place).ToString()
		must(t, err)
		command(t, client, "FLUSHALL")
		cases := [][]string{
			{"SET", ref.Place, "x"}, {"SET", ref.Place, "M2"}, {"SET", ref.Place, "M20" + string(make([]byte, 200))},
			{"SET", ref.Place, "M1" + good[2:]}, {"SET", ref.Place, "M22" + good[3:]},
			{"SET", ref.Place, good[:104]}, {"SET", ref.Place, good[:105]}, {"HSET", ref.Place, "a", "b"},
			{"SET", ref.participants, "x"},
			{"SET", ref.Pointer, "x"}, {"SET", ref.Pointer, " x"}, {"SET", ref.Pointer, "run "},
			{"HSET", ref.Pointer, "a", "b"}, {"SET", ref.list, "x"},
		}
		for i := 3; i < 105; i += 4 { // a column that is no number
			cases = append(cases, []string{"SET", ref.Place, good[:i] + "x" + good[i+1:]})
		}
		for _, words := range cases {
			for kind := majority.Read; kind <= majority.Restore; kind++ {
				if kind != majority.Read && words[1] == ref.participants {
					continue // only a read looks at them
				}
				foreign(t, client, fmt.Sprint("kind ", kind), words, func() error {
					_, err := endpoint.Vote(ctx, ref, VoteRequest{Kind: kind, Ballot: one})
					return err
				})
			}
		}
	})
}

func TestPlaceTimeToLive(t *testing.T) {
	c := newClock(t)
	endpoint, ref := NewEndpoint(miniClient(t, c.Miniredis)), VoteKey("", "t", "g", "limit")
	expect := func(place, participants time.Duration) {
		t.Helper()
		if r, p := c.TTL(ref.Place), c.TTL(ref.participants); r != place || p != participants {
			t.Errorf("the place lives %v, participants %v; want %v, %v", r, p, place, participants)
		}
	}
	vote := func(r VoteRequest) {
		t.Helper()
		if _, err := endpoint.Vote(t.Context(), ref, r); err != nil {
			t.Fatal(err)
		}
	}
	vote(VoteRequest{Kind: majority.Prepare, Ballot: one, Keep: time.Second})
	expect(time.Second, 0)
	elect(t, endpoint, ref, VoteRequest{Ballot: majority.Ballot{Round: 2, Proposer: 1}, Keep: 30 * time.Second})
	c.forward(time.Second)
	vote(VoteRequest{Kind: majority.Read, Keep: time.Minute})
	vote(VoteRequest{Kind: majority.Prepare, Ballot: one, Keep: time.Minute}) // refused
	expect(29*time.Second, 0)
	vote(reader("a"))
	expect(time.Minute, 10*time.Second)
	vote(VoteRequest{Kind: majority.Read, Participant: "a", ParticipantTTL: 20 * time.Second})
	expect(time.Minute, 20*time.Second)
	c.forward(2 * time.Minute)
	if keys := c.Keys(); len(keys) != 1 || keys[0] != ref.list || c.TTL(ref.list) < 24*time.Hour {
		t.Errorf("%q live for ever", keys)
	}
	vote(reader("a")) // no place, still a participant
	expect(0, 10*time.Second)
	elect(t, endpoint, ref, VoteRequest{})
	c.forward(time.Hour)
	expect(0, 0)
	if keys := c.Keys(); len(keys) != 2 || keys[0] != ref.list || keys[1] != ref.Place {
		t.Errorf("%q", keys)
	}
}

// A place lists the records whose values it holds, for as long as these live. One that has accepted
// a successor takes nothing else any more, and tells what it lists.
func TestAPlaceThatHasMoved(t *testing.T) {
	c := newClock(t)
	endpoint := NewEndpoint(miniClient(t, c.Miniredis))
	key := func(name string) VoteRef { return VoteKey("", "t", "g", name) }
	listed := func() (all []VoteRecord, moved bool) {
		t.Helper()
		for {
			got, err := endpoint.Vote(t.Context(), key(""), VoteRequest{Kind: VoteList, Alone: true, After: len(all)})
			if err != nil || !got.OK || !got.Votes {
				t.Fatalf("%+v %v", got, err)
			}
			page, err := got.Records()
			must(t, err)
			if all = append(all, page...); len(page) == 0 {
				return all, got.Moved
			}
		}
	}
	for i := range 300 {
		elect(t, endpoint, key(fmt.Sprint("early ", i)), VoteRequest{Keep: time.Second})
	}
	c.forward(2 * time.Second) // they are over
	for i := range 6 {
		elect(t, endpoint, key(fmt.Sprint("some: ", i)), VoteRequest{Keep: time.Hour, Value: "v"})
	}
	elect(t, endpoint, key("nodes"), VoteRequest{Value: "v"})
	if all, moved := listed(); len(all) > 0 || moved {
		t.Errorf("it has not moved: %v", all)
	}
	for i := range 250 {
		elect(t, endpoint, key(fmt.Sprint("some: ", i)),
			VoteRequest{Ballot: majority.Ballot{Round: 2, Proposer: 1}, Keep: time.Minute, Value: "w"})
	}
	c.forward(time.Second)
	if _, err := endpoint.Vote(t.Context(), key("some: 7"), reader("a")); err != nil { // for ten seconds
		t.Fatal(err)
	}
	elect(t, endpoint, key(VoteSuccessor), VoteRequest{Keep: time.Hour})
	all, moved := listed()
	keep := map[string]time.Duration{}
	for _, r := range all {
		keep[r.Name] = r.Keep
	}
	if len(all) != 252 || !moved || keep["some: 7"] != time.Minute || keep["some: 6"] != 59*time.Second ||
		keep["nodes"] != 0 || keep[VoteSuccessor] != time.Hour {
		t.Errorf("%d records: %v", len(all), keep)
	}
	before, err := c.Get(key("some: 7").Place)
	must(t, err)
	mark := before[strings.LastIndex(before, "none/") : len(before)-1]
	for kind := majority.Read; kind <= majority.Restore; kind++ {
		for _, name := range []string{"some: 7", "another"} {
			ballot := majority.Ballot{Round: 2, Proposer: 1} // as it has promised
			if kind == majority.Prepare {
				ballot.Round = 9
			}
			got, err := endpoint.Vote(t.Context(), key(name),
				VoteRequest{Kind: kind, Ballot: ballot, Alone: true, Mark: mark, Value: "x"})
			if err != nil || got.OK != (kind == majority.Read) || !got.Moved {
				t.Errorf("kind %d of %s: %+v %v", kind, name, got, err)
			}
		}
	}
	if after, err := c.Get(key("some: 7").Place); err != nil || after != before || c.Exists(key("another").Place) {
		t.Errorf("%q became %q, %v", before, after, err)
	}
	c.forward(2 * time.Minute) // most are over by now
	elect(t, endpoint, key(VoteSuccessor), VoteRequest{Ballot: majority.Ballot{Round: 2, Proposer: 1}, Keep: time.Hour})
	if again, _ := listed(); len(again) != len(all) {
		t.Errorf("%d records are in a list that may be read just now, and %d were", len(again), len(all))
	}
}

// A list that is damaged is refused.
func FuzzRecords(f *testing.F) {
	f.Add("1:a0 ")
	f.Add("3:a:b3600000 0:1 ")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := (&VoteReply{Answer: majority.Answer{Value: text}}).Records()
		if err != nil && !errors.Is(err, ErrMalformedReply) {
			t.Error(err)
		}
		for _, r := range all {
			if r.Keep < 0 || len(r.Name) > len(text) {
				t.Errorf("%q: %+v", text, r)
			}
		}
	})
}

func TestParticipants(t *testing.T) {
	c := newClock(t)
	endpoint, ref := NewEndpoint(miniClient(t, c.Miniredis)), VoteKey("", "t", "g", "limit")
	heartbeat := func(name string) int64 {
		t.Helper()
		r, err := endpoint.Vote(t.Context(), ref, reader(name))
		must(t, err)
		return r.Participants
	}
	for i := range 200 {
		if n := heartbeat(fmt.Sprint("early ", i)); n != int64(i+1) {
			t.Fatalf("%d participants, want %d", n, i+1)
		}
	}
	if n, m := heartbeat("early 7"), heartbeat(""); n != 200 || m != 200 {
		t.Errorf("known ones count once, not %d, and who only looks does not, %d", n, m)
	}
	c.forward(10*time.Second - time.Microsecond)
	if n := heartbeat("late"); n != 201 {
		t.Errorf("%d participants just in time", n)
	}
	c.forward(time.Microsecond)
	n := heartbeat("late")
	if names, err := c.ZMembers(ref.participants); n != 1 || err != nil || len(names) != 1 {
		t.Errorf("%d participants in a set of %d, want 1 in 1: %v", n, len(names), err)
	}
	// Seen in the far future: before the clock went back.
	c.forward(-time.Hour)
	if n = heartbeat("early 1"); n != 1 {
		t.Errorf("%d participants", n)
	}
}

func TestParticipantsAreCapped(t *testing.T) {
	const most = 10_000
	client := redistest.Standalone(t).Client(t)
	endpoint, ref := NewEndpoint(client), VoteKey("", "t", "g", "limit")
	now := strconv.FormatInt(time.Now().UnixMicro(), 10)
	words := []string{"ZADD", ref.participants}
	for i := range most - 1 {
		words = append(words, now, strconv.Itoa(i))
	}
	command(t, client, words...)
	for i, name := range []string{"last", "one too many", "last", "17"} {
		r, err := endpoint.Vote(t.Context(), ref,
			VoteRequest{Kind: majority.Read, Participant: name, ParticipantTTL: time.Hour, Keep: time.Hour})
		if err != nil || r.Participants != most {
			t.Errorf("%d: %d participants: %v", i, r.Participants, err)
		}
	}
}
