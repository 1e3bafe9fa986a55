package redissim

import (
	"context"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

func BenchmarkTake(b *testing.B) {
	start := time.Now()
	n := time.Duration(0)
	s := NewServer(func() time.Time { return start.Add(n) })
	e := script.NewEndpoint(s.Direct())
	p, err := script.Terms{Epoch: 1, Target: 100, Floor: 100, Window: time.Second, Keep: time.Hour}.Proposal()
	if err != nil {
		b.Fatal(err)
	}
	ref := script.ShardKeys("", "t", "x")
	for b.Loop() {
		n += 9 * time.Millisecond
		if _, err := e.Take(context.Background(), ref,
			&script.TakeRequest{Proposal: p, Groups: []script.Group{{Size: 1, Count: 1}}}); err != nil {
			b.Fatal(err)
		}
	}
}
