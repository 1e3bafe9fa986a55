//go:build unix

package shardlimit_test

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func BenchmarkAllow(b *testing.B) {
	f := limittest.Standalone(b)
	l := limittest.Limiter(b, f.Client(b), "l", shardlimit.Limit{Permits: 1e9, Per: time.Second, Shards: 1})
	ctx := b.Context()
	b.Run("lone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.Allow(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, callers := range []int{16, 1024, 8192} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			crowd(b, callers, func() error {
				_, err := l.Allow(ctx)
				return err
			})
		})
	}
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("known denial/callers=%d", callers), func(b *testing.B) {
			l := limittest.Limiter(b, f.Client(b), "d", shardlimit.Limit{Permits: 1, Per: time.Hour, Shards: 1})
			_, _ = l.Allow(ctx)
			crowd(b, callers, func() error {
				_, err := l.Allow(ctx)
				return err
			})
		})
	}
	b.Run("lease", func(b *testing.B) {
		b.ReportAllocs()
		l := limittest.Limiter(b, f.Client(b), "h",
			shardlimit.Limit{Permits: 1e12, Per: time.Second, Shards: 1, Lease: time.Second})
		crowd(b, runtime.GOMAXPROCS(0), func() error {
			_, err := l.Allow(ctx)
			return err
		})
	})
}

// BenchmarkWait has 800 callers wait for one permit after the other of a bucket with 5,000 a
// second, and reports which part of the rate they get, besides what was in a token bucket at first.
func BenchmarkWait(b *testing.B) {
	f := limittest.Standalone(b)
	for _, a := range []shardlimit.Algorithm{shardlimit.TokenBucket, shardlimit.LeakyBucket} {
		for _, burst := range []int64{1, 50, 500} {
			b.Run(fmt.Sprintf("%s/burst=%d", a, burst), func(b *testing.B) {
				limit := shardlimit.Limit{Permits: 5000, Per: time.Second, Algorithm: a, Burst: burst, Shards: 1}
				l := limittest.Limiter(b, f.Client(b), fmt.Sprint(a, burst, "/", b.N), limit)
				crowd(b, 800, func() error { return l.Wait(b.Context()) })
				permits := int64(b.N)
				if a == shardlimit.TokenBucket {
					permits -= burst
				}
				b.ReportMetric(float64(permits)/b.Elapsed().Seconds()/5000, "of-rate")
			})
		}
	}
}

// crowd shares b.N calls among so many goroutines, and reports the CPU time of the whole process
// besides.
func crowd(b *testing.B, callers int, call func() error) {
	b.ReportAllocs()
	cpu := func() int64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := cpu()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for range (b.N + i) / callers {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
}
