package script

import (
	"errors"
	"regexp"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// The script does what majority.Place.Hear does, answer for answer and byte for byte, for places
// that forget, are restored from a snapshot, or see their server start again.
func TestVoteAgreesWithItsTwin(t *testing.T) {
	for name, client := range map[string]rueidis.Client{
		"miniredis": miniClient(t, miniredis.RunT(t)),
		"redis":     redistest.Standalone(t).Client(t),
	} {
		t.Run(name, func(t *testing.T) { testVotes(t, client) })
	}
}

func testVotes(t *testing.T, client rueidis.Client) {
	ctx, endpoint, ref := t.Context(), NewEndpoint(client), VoteKey("test:", "1", "nodes")
	run := "none"
	if info, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString(); err == nil {
		run = regexp.MustCompile(`run_id:(\w+)`).FindStringSubmatch(info)[1]
	}
	rapid.Check(t, func(t *rapid.T) {
		client.Do(ctx, client.B().Del().Key(ref.Key()).Build())
		var place majority.Place
		saved, text := place, ""
		put := func(p majority.Place) {
			place = p
			client.Do(ctx, client.B().Del().Key(ref.Key()).Build())
			if p != (majority.Place{}) {
				stored, err := p.Encode()
				if err != nil {
					t.Fatal(err)
				}
				client.Do(ctx, client.B().Set().Key(ref.Key()).Value(stored).Build())
			}
		}
		marks := []string{"", "other"}
		ballots := rapid.Custom(func(t *rapid.T) majority.Ballot {
			return majority.Ballot{Round: rapid.Int64Range(1, 4).Draw(t, "round"),
				Proposer: rapid.Int64Range(9, 11).Draw(t, "proposer")}
		})
		for range rapid.IntRange(1, 20).Draw(t, "messages") {
			switch rapid.IntRange(0, 12).Draw(t, "event") {
			case 0:
				put(majority.Place{})
			case 1:
				saved = place
			case 2:
				put(saved)
			case 3:
				if p := place; p.Run != "" {
					p.Run = "before"
					put(p)
				}
			}
			m := majority.Message{Kind: majority.Kind(rapid.IntRange(1, 4).Draw(t, "kind")),
				Ballot: ballots.Draw(t, "ballot"),
				Mark:   rapid.SampledFrom(marks).Draw(t, "mark"),
				Value:  rapid.SampledFrom([]string{"a", "b\x00b", ""}).Draw(t, "value")}
			if place.Promised != (majority.Ballot{}) && rapid.Bool().Draw(t, "fitting") {
				m.Ballot, m.Mark = place.Promised, place.Mark
			}
			got, err := endpoint.Vote(ctx, ref, VoteRequest{int(m.Kind), VoteBallot(m.Ballot), m.Mark, m.Value})
			if err != nil {
				t.Fatal(err)
			}
			var want majority.Answer
			place, want = place.Hear(m, majority.Server{Run: run, Now: got.Now})
			if place.Mark == "" {
				place.Run = ""
			}
			if answer := (majority.Answer{OK: got.Done, Votes: got.Votes, Mark: got.Mark,
				Promised: majority.Ballot(got.Promised),
				Accepted: majority.Ballot(got.Accepted), Value: got.Value, Age: got.Age}); answer != want {
				t.Fatalf("%+v: answered %+v, want %+v", m, answer, want)
			}
			marks = append(marks, got.Mark)
			text, err = client.Do(ctx, client.B().Get().Key(ref.Key()).Build()).ToString()
			if err != nil && !rueidis.IsRedisNil(err) {
				t.Fatal(err)
			}
			if text == "" {
				continue
			}
			read, err := majority.DecodePlace(text)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if again, err := read.Encode(); err != nil || again != text {
				t.Fatalf("stored %q, again %q: %v", text, again, err)
			}
			if read.Run != run { // nothing was written in this run
				read.Run, read.Mark, read.Votes = "", "", false
			}
			if place.Run != run {
				place.Run, place.Mark, place.Votes = "", "", false
			}
			if read != place {
				t.Fatalf("%+v: stored %+v, want %+v", m, read, place)
			}
		}
	})
}

// A value of another kind under the key of a place is told, and left alone.
func TestAForeignPlaceIsTold(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	ctx, endpoint, ref := t.Context(), NewEndpoint(client), VoteKey("test:", "1", "nodes")
	for _, value := range []string{"x", "M1", "M10" + string(make([]byte, 90))} {
		client.Do(ctx, client.B().Set().Key(ref.Key()).Value(value).Build())
		for kind := VoteRead; kind <= VoteRestore; kind++ {
			_, err := endpoint.Vote(ctx, ref, VoteRequest{Kind: kind, Ballot: VoteBallot{1, 1}})
			if !errors.Is(err, ErrForeignState) {
				t.Errorf("kind %d of %q: %v", kind, value, err)
			}
		}
		if got, err := client.Do(ctx, client.B().Get().Key(ref.Key()).Build()).ToString(); err != nil || got != value {
			t.Errorf("%q became %q (%v)", value, got, err)
		}
	}
}
