package script

import (
	"errors"
	"testing"

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
