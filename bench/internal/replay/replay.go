// Package replay drives the take script of shardlimit without the client around
// it: one shard that has the whole limit, and the exact EVALSHA that a take is.
package replay

import (
	"context"
	"errors"
	"fmt"
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
	proposal, err := script.NewProposal(1, permits, permits, window, window, false)
	if err != nil {
		return nil, err
	}
	return &Shard{
		ref:      script.ShardKeys("bench:", shard.Tag(shard.Slot(name)), name),
		proposal: proposal,
		endpoint: script.NewEndpoint(client),
	}, nil
}

// Key is a shard of the same size for a key, on the same server.
func (s *Shard) Key(key string) *Shard {
	return &Shard{ref: script.ShardKeys("bench:", shard.Tag(shard.Slot(key)), key), proposal: s.proposal,
		endpoint: s.endpoint}
}

// Take asks for n permits, all or nothing, in a script call of its own, and
// returns how many were granted.
func (s *Shard) Take(ctx context.Context, n int64) (int64, error) {
	reply, err := s.endpoint.Take(ctx, s.ref, &script.TakeRequest{
		Proposal: s.proposal,
		Seen:     true,
		Groups:   []script.Group{{Size: n, Count: 1}},
	})
	return reply.Granted, err
}

// TryOne asks for a permit in a script call of its own. If there is none, after is the time
// until the next can be free.
func (s *Shard) TryOne(ctx context.Context) (granted bool, after time.Duration, err error) {
	reply, err := s.endpoint.Take(ctx, s.ref, &script.TakeRequest{
		Proposal: s.proposal,
		Seen:     true,
		Groups:   []script.Group{{Size: 1, Count: 1}},
	})
	return reply.Granted > 0, reply.Retry, err
}

// TakeUpTo asks for n single permits at once, in a script call of its own, and
// returns how many were granted.
func (s *Shard) TakeUpTo(ctx context.Context, n int64) (int64, error) {
	reply, err := s.endpoint.Take(ctx, s.ref, &script.TakeRequest{
		Proposal: s.proposal,
		Seen:     true,
		Groups:   []script.Group{{Size: 1, Count: n}},
	})
	return reply.Granted, err
}

// Keys are the keys of the shard: its head and its log.
func (s *Shard) Keys() (head, log string) { return s.ref.Head(), s.ref.Log() }

// Command is an EVALSHA that can be sent again and again.
type Command struct{ words []string }

// Capture returns the command that a take of n permits from the shard is on the
// wire. The server then knows the script, and the shard exists: n permits were
// asked for twice.
func Capture(ctx context.Context, client rueidis.Client, name string, permits int64, window time.Duration,
	n int64) (*Shard, Command, error) {
	tap := &tap{Client: client}
	s, err := NewShard(tap, name, permits, window)
	if err != nil {
		return nil, Command{}, err
	}
	for range 2 { // the first one may load the script
		if _, err := s.Take(ctx, n); err != nil {
			return nil, Command{}, fmt.Errorf("take %d of %q: %w", n, name, err)
		}
	}
	if len(tap.last) == 0 || tap.last[0] != "EVALSHA" {
		return nil, Command{}, errors.New("a take did not send EVALSHA")
	}
	s.endpoint = script.NewEndpoint(client)
	return s, Command{words: tap.last}, nil
}

// Build makes the command anew: rueidis recycles what it has sent.
func (c Command) Build(client rueidis.Client) rueidis.Completed {
	return client.B().Arbitrary(c.words...).Build()
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
