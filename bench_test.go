package shardlimit_test

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

func BenchmarkAllow(b *testing.B) {
	f := standalone(b)
	l := limiter(b, f.client(b), "l", shardlimit.Limit{Permits: 1e9, Per: time.Second, Shards: 1})
	ctx := b.Context()
	b.Run("lone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.Allow(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel1024", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(512)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := l.Allow(ctx); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("known denial", func(b *testing.B) {
		b.ReportAllocs()
		l := limiter(b, f.client(b), "d", shardlimit.Limit{Permits: 1, Per: time.Hour, Shards: 1})
		_, _ = l.Allow(ctx)
		for b.Loop() {
			if _, err := l.Allow(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("lease", func(b *testing.B) {
		b.ReportAllocs()
		l := limiter(b, f.client(b), "h", shardlimit.Limit{Permits: 1e12, Per: time.Second, Shards: 1, Lease: time.Second})
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := l.Allow(ctx); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
