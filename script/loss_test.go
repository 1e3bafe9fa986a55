package script

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// TestServerRefusesToWrite: a full or read-only server refuses before anything is written, and says
// so. A denial writes nothing and goes on.
func TestServerRefusesToWrite(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	shard := func(name string) clocked {
		return clocked{client: client, uptime: 1_000_000, ref: ShardKeys("", "t", name)}
	}
	one, other := shard("limit"), shard("other")
	p, err := newProposal(1, 200, 200, time.Second, time.Hour, false)
	if err != nil {
		t.Fatal(err)
	}
	start := int64(1_700_000_000_000_000)
	at := func(step int64) int64 { return start + step*10_000 }
	for step := range int64(50) {
		if reply, err := one.take(at(step), ones(p, 4)); err != nil || reply.Granted != 4 {
			t.Fatal(reply, err)
		}
	}
	take := func(step int64) func() error {
		return func() error { _, err := one.take(at(step), ones(p, 1)); return err }
	}
	settle := func(step int64) func() error {
		return func() error {
			_, err := one.settle(at(49), SettleRequest{Back: 4, At: clock.ServerTime(at(step))})
			return err
		}
	}
	refused := map[string]func() error{
		"trim, then open": take(120), "create": func() error { _, err := other.take(at(0), ones(p, 1)); return err },
		"settle, open entry": settle(49), "settle, closed entry": settle(20),
		"clear": func() error { _, err := one.clear(at(50)); return err },
	}
	for name, words := range map[string][2][]string{
		"full":      {{"CONFIG", "SET", "maxmemory", "1"}, {"CONFIG", "SET", "maxmemory", "0"}},
		"read-only": {{"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"}},
	} {
		head, _ := one.stored()
		command(t, client, words[0]...)
		for operation, call := range refused {
			var refusal *RefusedError
			if err := call(); !errors.As(err, &refusal) || !NotExecuted(err) {
				t.Errorf("%s, %s: %v", name, operation, err)
			}
			if h, _ := one.stored(); h != head {
				t.Fatalf("%s, %s: the state changed to %q", name, operation, h)
			}
		}
		if err := take(49)(); err != nil {
			t.Errorf("%s, a denial: %v", name, err)
		}
		command(t, client, words[1]...)
	}
	if reply, err := one.take(at(120), ones(p, 200)); err != nil || reply.Granted != 84 {
		t.Errorf("afterwards: %+v %v", reply, err)
	}
}

// TestABucketIsFullAgainAfterALoss: a bucket that takes longer than a window to fill stays shut for
// as long, so that what it forgot and what is in it then keep to its bound.
func TestABucketIsFullAgainAfterALoss(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		p := terms(t, Terms{Epoch: 1, Target: 10, Floor: 10, Burst: 25, Window: time.Second, Keep: time.Hour,
			Algorithm: AlgorithmTokenBucket, Quarantine: true})
		lost := &TakeRequest{Proposal: p, Relied: Relied{Seen: true}}
		r, err := NewEndpoint(client).Take(t.Context(), AlgorithmTokenBucket.Keys(redistest.Prefix(t), "t", "l"), lost)
		twin := NewTwin(AlgorithmTokenBucket).Take(epoch0, lost)
		if err != nil || r.Closed != 2500*time.Millisecond || twin.Closed != r.Closed {
			t.Fatalf("%+v, %v, twin %+v", r, err, twin)
		}
	})
}
