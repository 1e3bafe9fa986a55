package script

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// onBoth runs a test on miniredis and, where there is one, on a real server.
func onBoth(t *testing.T, test func(t *testing.T, client rueidis.Client)) {
	t.Run("miniredis", func(t *testing.T) { test(t, miniClient(t, miniredis.RunT(t))) })
	t.Run("redis", func(t *testing.T) { test(t, redistest.Standalone(t).Client(t)) })
}

// foreign has a command put something under a key, and sees that a call tells that it is not ours,
// and changes nothing.
func foreign(t *testing.T, client rueidis.Client, what string, put []string, call func() error) {
	t.Helper()
	command(t, client, "DEL", put[1])
	command(t, client, put...)
	before := everything(t, client)
	var state *StateError
	if err := call(); !errors.As(err, &state) || state.Key != put[1] || !NotExecuted(err) {
		t.Errorf("%s of %q: %v", what, put, err)
	}
	if after := everything(t, client); before != after {
		t.Errorf("%s of %q: %q became %q", what, put, before, after)
	}
	command(t, client, "DEL", put[1])
}

// stillRedis is a miniredis whose time, and with it every time to live, stands still unless moved.
type stillRedis struct {
	*miniredis.Miniredis
	now time.Time
}

func newClock(t *testing.T) *stillRedis {
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	c := &stillRedis{Miniredis: m, now: time.UnixMicro(1_700_000_000_000_000)}
	c.forward(0)
	return c
}

func (c *stillRedis) forward(d time.Duration) {
	c.now = c.now.Add(d)
	c.SetTime(c.now)
}

func TestNothingIsCreated(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		ctx, endpoint, ref := context.Background(), NewEndpoint(client), ShardKeys("", "t", "limit")
		if reply, err := endpoint.Take(ctx, ref, ones(terms(t, Terms{}), 1)); err != nil || reply.Status != Absent ||
			reply.Granted != 0 {
			t.Errorf("%+v %v", reply, err)
		}
		if reply, err := endpoint.Peek(ctx, ref); err != nil || !reflect.DeepEqual(reply, PeekReply{}) {
			t.Errorf("%+v %v", reply, err)
		}
		for _, a := range allAlgorithms {
			p := terms(t, Terms{Epoch: 1, Target: 1, Floor: 1, Window: time.Second, Algorithm: a})
			for _, r := range []SettleRequest{{Back: 1, At: 1, Mark: "m", MarkFor: time.Minute},
				{Charge: 1, Proposal: p, Relied: Relied{Deadline: Unconfirmed}, Mark: "m", MarkFor: time.Minute}} {
				reply, err := endpoint.Settle(ctx, a.Keys("", "t", "limit"), r)
				if err != nil || reply.Status != Absent || reply.Back != 0 || reply.Granted != 0 {
					t.Errorf("%v: %+v %v", a, reply, err)
				}
			}
		}
		if err := endpoint.Clear(ctx, ref); err != nil {
			t.Error(err)
		}
		if err := endpoint.Drop(ctx, ref); err != nil {
			t.Error(err)
		}
		if _, err := endpoint.Vote(ctx, VoteKey("", "t", "g", "limit"), VoteRequest{Kind: majority.Read}); err != nil {
			t.Error(err)
		}
		if n, err := command(t, client, "DBSIZE").AsInt64(); err != nil || n != 0 {
			t.Errorf("%d keys: %v", n, err)
		}
	})
}

func TestLargestEpoch(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		endpoint, ref := NewEndpoint(client), VoteKey("", "t", "g", "limit")
		for epoch := int64(MaxEpoch - 1); epoch <= MaxEpoch; epoch++ {
			largest := majority.Ballot{Round: epoch, Proposer: MaxEpoch}
			if r := elect(t, endpoint, ref, VoteRequest{Ballot: largest, Value: "v"}); r.Accepted != largest {
				t.Errorf("%+v", r)
			}
			reply, err := endpoint.Take(t.Context(), ShardKeys("", "t", "limit"),
				ones(proposal(t, epoch, MaxPermits, MaxWindow), MaxPermits))
			if err != nil || reply.Epoch != epoch || reply.Used != MaxPermits {
				t.Errorf("%+v %v", reply, err)
			}
		}
	})
}
