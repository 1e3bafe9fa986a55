package majority

import (
	"regexp"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/script"
)

// The script does what Place.Hear does, answer for answer and byte for byte, for places
// that forget, are restored from a snapshot, or see their server start again.
func TestVoteAgreesWithItsTwin(t *testing.T) {
	for name, client := range map[string]rueidis.Client{
		"miniredis": miniature(t),
		"redis":     redistest.Standalone(t).Client(t),
	} {
		t.Run(name, func(t *testing.T) { testVotes(t, client) })
	}
}

func testVotes(t *testing.T, client rueidis.Client) {
	ctx, endpoint, ref := t.Context(), script.NewEndpoint(client), script.VoteKey("test:", "1", "nodes")
	run := "none"
	if info, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString(); err == nil {
		run = regexp.MustCompile(`run_id:(\w+)`).FindStringSubmatch(info)[1]
	}
	if info, err := client.Do(ctx, client.B().Info().Section("replication").Build()).ToString(); err == nil {
		run += "/" + regexp.MustCompile(`master_replid:(\w+)`).FindStringSubmatch(info)[1]
	}
	rapid.Check(t, func(t *rapid.T) {
		client.Do(ctx, client.B().Del().Key(ref.Key()).Build())
		var place Place
		saved, text := place, ""
		put := func(p Place) {
			place = p
			client.Do(ctx, client.B().Del().Key(ref.Key()).Build())
			if p != (Place{}) {
				client.Do(ctx, client.B().Set().Key(ref.Key()).Value(p.stored()).Build())
			}
		}
		marks := []string{"", "other"}
		ballots := rapid.Custom(func(t *rapid.T) Ballot {
			return Ballot{Round: rapid.Int64Range(1, 4).Draw(t, "round"),
				Proposer: rapid.Int64Range(9, 11).Draw(t, "proposer")}
		})
		for range rapid.IntRange(1, 20).Draw(t, "messages") {
			switch rapid.IntRange(0, 12).Draw(t, "event") {
			case 0:
				put(Place{})
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
			m := Message{Kind: Kind(rapid.IntRange(1, 4).Draw(t, "kind")),
				Ballot: ballots.Draw(t, "ballot"),
				Mark:   rapid.SampledFrom(marks).Draw(t, "mark"),
				Value:  rapid.SampledFrom([]string{"a", "b\x00b", ""}).Draw(t, "value")}
			if place.Promised != (Ballot{}) && rapid.Bool().Draw(t, "fitting") {
				m.Ballot, m.Mark = place.Promised, place.Mark
			}
			got, err := endpoint.Vote(ctx, ref,
				script.VoteRequest{
					Kind: int(m.Kind), Ballot: script.VoteBallot(m.Ballot), Mark: m.Mark, Value: m.Value,
				})
			if err != nil {
				t.Fatal(err)
			}
			var want Answer
			place, want = place.Hear(m, Server{Run: run, Now: got.Now})
			if place.Mark == "" {
				place.Run = ""
			}
			if answer := (Answer{OK: got.Done, Votes: got.Votes, Mark: got.Mark,
				Promised: Ballot(got.Promised),
				Accepted: Ballot(got.Accepted), Value: got.Value, Age: got.Age}); answer != want {
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
			read, err := placeOf(text)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if again := read.stored(); again != text {
				t.Fatalf("stored %q, again %q", text, again)
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

// miniature is a client of a server in this process.
func miniature(t *testing.T) rueidis.Client {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{miniredis.RunT(t).Addr()},
		DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}
