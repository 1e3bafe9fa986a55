// Package replay drives the take script of shardlimit without the client around
// it: one shard that has the whole limit, and the exact EVALSHA that a take is.
package replay

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Shard is a limit with a single shard, all of it in force.
type Shard struct {
	ref      script.ShardRef
	proposal *script.Proposal
	endpoint *script.Endpoint
}

// NewShard names a shard on the server of client; the first take creates it.
func NewShard(client rueidis.Client, name string, permits int64, window time.Duration) (*Shard, error) {
	return (&Shard{endpoint: script.NewEndpoint(client)}).Sized(name, permits, window)
}

// Key is a shard of the same size with another name, on the same server.
func (s *Shard) Key(key string) *Shard {
	return &Shard{ref: script.ShardKeys("bench:", shard.Tag(shard.Slot(key)), key), proposal: s.proposal,
		endpoint: s.endpoint}
}

// Sized is a shard of another size, on the same server.
func (s *Shard) Sized(name string, permits int64, window time.Duration) (*Shard, error) {
	sized, err := script.Terms{Epoch: 1, Target: permits, Floor: permits, Window: window, Keep: window}.Proposal()
	return (&Shard{proposal: sized, endpoint: s.endpoint}).Key(name), err
}

// Take asks for n permits count times, each all or nothing, in one script call, and
// returns how many were granted.
func (s *Shard) Take(ctx context.Context, n, count int64) (int64, error) {
	granted, _, err := s.ask(ctx, n, count)
	return granted, err
}

// Try asks for a permit. If there is none, after is the time until the next can be free.
func (s *Shard) Try(ctx context.Context) (granted bool, after time.Duration, err error) {
	n, after, err := s.ask(ctx, 1, 1)
	return n > 0, after, err
}

func (s *Shard) ask(ctx context.Context, n, count int64) (granted int64, after time.Duration, err error) {
	reply, err := s.endpoint.Take(ctx, s.ref, &script.TakeRequest{
		Proposal: s.proposal,
		Relied:   script.Relied{Seen: true},
		Groups:   []script.Group{{Size: n, Count: count}},
	})
	return reply.Granted, reply.Retry, err
}

// Keys are the keys of the shard: its head and its log.
func (s *Shard) Keys() []string { return []string{s.ref.Head()} }

// Capture returns the EVALSHA that a take of one permit is on the wire, as it can be sent again and
// again. The server then knows the script, and the shard exists.
func Capture(ctx context.Context, client rueidis.Client, name string, permits int64,
	window time.Duration) (words []string, err error) {
	tap := &tap{Client: client}
	s, err := NewShard(tap, name, permits, window)
	if err != nil {
		return nil, err
	}
	for range 2 { // the first one may load the script
		if _, err := s.Take(ctx, 1, 1); err != nil {
			return nil, err
		}
	}
	if len(tap.last) == 0 || tap.last[0] != "EVALSHA" {
		return nil, errors.New("a take did not send EVALSHA")
	}
	return tap.last, nil
}

// tap remembers the last command that went through it. For one goroutine.
type tap struct {
	rueidis.Client
	last []string
}

func (t *tap) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	t.last = slices.Clone(cmd.Commands())
	return t.Client.Do(ctx, cmd)
}
