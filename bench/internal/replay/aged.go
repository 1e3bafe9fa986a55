package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2" //nolint:depguard // nobody imports the benchmark, and it sets the clock
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// Aged is the state of a shard after a past that nobody needs to wait for: its script
// ran in an embedded Redis with a clock of its own.
type Aged struct {
	head    string
	members []rueidis.ZScore
}

// Age has a limit granted n permits at each of so many instants, spread evenly over the
// window that ends at an instant, and returns its state then.
func Age(ctx context.Context, permits int64, window time.Duration, n int64, takes int, end time.Time) (Aged, error) {
	node, err := miniredis.Run()
	if err != nil {
		return Aged{}, err
	}
	defer node.Close()
	client, err := rueidis.NewClient(server.Option(node.Addr()))
	if err != nil {
		return Aged{}, err
	}
	defer client.Close()
	s, err := NewShard(client, "aged", permits, window)
	if err != nil {
		return Aged{}, err
	}
	for i := range takes {
		node.SetTime(end.Add(-window + window/time.Duration(takes)*time.Duration(i+1)))
		if granted, err := s.Take(ctx, n); err != nil || granted != n {
			return Aged{}, fmt.Errorf("take %d of %d: %d permits granted, want %d: %w", i+1, takes, granted, n, err)
		}
	}
	return s.state(ctx, client)
}

func (s *Shard) state(ctx context.Context, client rueidis.Client) (a Aged, err error) {
	head, log := s.Keys()
	if a.head, err = client.Do(ctx, client.B().Get().Key(head).Build()).ToString(); err != nil {
		return a, err
	}
	a.members, err = client.Do(ctx, client.B().Zrange().Key(log).Min("0").Max("-1").Withscores().Build()).AsZScores()
	return a, err
}

// Restore gives the shard a state instead of its own, for an hour.
func (s *Shard) Restore(ctx context.Context, client rueidis.Client, a Aged) error {
	head, log := s.Keys()
	add := client.B().Zadd().Key(log).ScoreMember()
	for _, m := range a.members {
		add = add.ScoreMember(m.Score, m.Member)
	}
	commands := []rueidis.Completed{
		client.B().Del().Key(log).Build(),
		client.B().Set().Key(head).Value(a.head).ExSeconds(3600).Build(),
	}
	if len(a.members) > 0 {
		commands = append(commands, add.Build(), client.B().Expire().Key(log).Seconds(3600).Build())
	}
	for _, reply := range client.DoMulti(ctx, commands...) {
		if err := reply.Error(); err != nil {
			return err
		}
	}
	return nil
}
