package script

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

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

// A place is on a server that was a replica for a while, and has what its new master had: a promise
// and a value that were not copied in time are gone, though the server ran all the time. It gives
// no vote.
func TestAPlaceThatWasAReplicaGivesNoVote(t *testing.T) {
	servers := redistest.Servers(t, 2)
	ctx, here, there := t.Context(), servers[0].Client(t), servers[1].Client(t)
	follow := func(c rueidis.Client, args ...string) {
		t.Helper()
		if err := c.Do(ctx, c.B().Arbitrary("REPLICAOF").Args(args...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	of := func(addr string) []string { host, port, _ := strings.Cut(addr, ":"); return []string{host, port} }
	place, ref := NewEndpoint(here), VoteKey("test:", "1", "nodes")
	vote := func(r VoteRequest) VoteReply {
		t.Helper()
		got, err := place.Vote(ctx, ref, r)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	holds := func(c rueidis.Client, value string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			got, _ := c.Do(ctx, c.B().Get().Key(ref.Key()).Build()).ToString()
			if strings.HasSuffix(got, value) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("it holds %q, not %q", got, value)
			}
		}
	}
	follow(there, of(servers[0].Addr())...)
	// A master that gets its first replica has another name for its data, too.
	here.Do(ctx, here.B().Set().Key(ref.Key()).Value("copied").Build())
	holds(there, "copied")
	here.Do(ctx, here.B().Del().Key(ref.Key()).Build())
	mark := vote(VoteRequest{Kind: VotePrepare, Ballot: VoteBallot{1, 1}}).Mark
	vote(VoteRequest{Kind: VoteRestore, Ballot: VoteBallot{1, 1}, Mark: mark, Value: "X is in"})
	holds(there, "X is in")
	follow(there, "NO", "ONE")
	vote(VoteRequest{Kind: VotePrepare, Ballot: VoteBallot{2, 1}})
	if got := vote(VoteRequest{Kind: VoteAccept, Ballot: VoteBallot{2, 1}, Mark: mark, Value: "X is out"}); !got.Done {
		t.Fatalf("%+v", got)
	}
	follow(here, of(servers[1].Addr())...)
	holds(here, "X is in")
	follow(here, "NO", "ONE")
	if got := vote(VoteRequest{Kind: VoteRead}); got.Votes || got.Mark != "" {
		t.Errorf("it votes for what it held before: %+v", got)
	}
}
