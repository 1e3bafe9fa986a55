package majority_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/limittest/redissim"
	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/script"
)

// The script does what Place.Hear does, answer for answer and byte for byte, for places
// that forget, are restored from a snapshot, or see their server start again, with a pointer of
// this run, of another one, and with none.
func TestVoteAgreesWithItsTwin(t *testing.T) {
	for name, client := range map[string]rueidis.Client{
		"miniredis": miniature(t),
		"redis":     redistest.Standalone(t).Client(t),
		"simulated": redissim.NewServer(time.Now).Direct(),
	} {
		t.Run(name, func(t *testing.T) { testVotes(t, client) })
	}
}

func testVotes(t *testing.T, client rueidis.Client) {
	ctx, endpoint, ref := t.Context(), script.NewEndpoint(client), script.VoteKey("test:", "1", "g", "nodes")
	run := "none"
	if info, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString(); err == nil {
		run = regexp.MustCompile(`run_id:(\w+)`).FindStringSubmatch(info)[1]
	}
	if info, err := client.Do(ctx, client.B().Info().Section("replication").Build()).ToString(); err == nil {
		if data := regexp.MustCompile(`master_replid:(\w+)`).FindStringSubmatch(info); data != nil {
			run += "/" + data[1]
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		client.Do(ctx, client.B().Del().Key(ref.Place, ref.Pointer).Build())
		var place majority.Place
		saved, pointer := place, ""
		put := func(p majority.Place) {
			place = p
			client.Do(ctx, client.B().Del().Key(ref.Place).Build())
			if p != (majority.Place{}) {
				client.Do(ctx, client.B().Set().Key(ref.Place).Value(p.Stored()).Build())
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
			case 4:
				pointer = rapid.SampledFrom([]string{run, "before"}).Draw(t, "pointer")
				client.Do(ctx, client.B().Set().Key(ref.Pointer).Value(pointer+" x").Build())
			case 5:
				pointer = ""
				client.Do(ctx, client.B().Del().Key(ref.Pointer).Build())
			}
			alone := rapid.IntRange(0, 4).Draw(t, "alone") == 0
			keep := rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "keep")
			m := majority.Message{Kind: majority.Kind(rapid.IntRange(1, 4).Draw(t, "kind")),
				Ballot: ballots.Draw(t, "ballot"),
				Mark:   rapid.SampledFrom(marks).Draw(t, "mark"),
				Value:  rapid.SampledFrom([]string{"a", "b\x00b", ""}).Draw(t, "value"),
				Known:  rapid.SampledFrom([]time.Duration{0, time.Microsecond, time.Hour, 1 << 62}).Draw(t, "known")}
			if place.Promised != (majority.Ballot{}) && rapid.Bool().Draw(t, "fitting") {
				m.Ballot, m.Mark = place.Promised, place.Mark
			}
			got, err := endpoint.Vote(ctx, ref, script.VoteRequest{Kind: m.Kind, Mark: m.Mark, Value: m.Value,
				Ballot: m.Ballot, Known: m.Known, Alone: alone, Keep: keep})
			if err != nil {
				t.Fatal(err)
			}
			var want majority.Answer
			place, want = place.Hear(m, majority.Server{Run: run, Whole: alone || pointer == run, Now: int64(got.Now)})
			if got.Answer != want {
				t.Fatalf("%+v: answered %+v, want %+v", m, got.Answer, want)
			}
			marks = append(marks, got.Mark)
			text, err := client.Do(ctx, client.B().Get().Key(ref.Place).Build()).ToString()
			if err != nil && !rueidis.IsRedisNil(err) || place == (majority.Place{}) && text != "" ||
				place != (majority.Place{}) && text != place.Stored() {
				t.Fatalf("%+v: stored %q, want %+v (%v)", m, text, place, err)
			}
			ms, err := client.Do(ctx, client.B().Pttl().Key(ref.Place).Build()).AsInt64()
			if lives := (time.Duration(max(ms, 0)) * time.Millisecond).Round(time.Hour); err != nil ||
				text != "" && m.Kind != majority.Read && got.OK && lives != keep { // 0: it does not end by itself
				t.Fatalf("%+v: it lives %v, want %v (%v)", m, lives, keep, err)
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
