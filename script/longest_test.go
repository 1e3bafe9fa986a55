package script

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// BenchmarkLongestCall reports the longest single call that a real server saw (SLOWLOG, us) and the
// one that all but one in a thousand are no longer than: the server counts the time in which it has
// lost its core, too. What costs most is tried in turn: half of the log has left, nothing was
// called for long, several permits are refused, and one of 1,000 participants asks.
func BenchmarkLongestCall(b *testing.B) {
	client := redistest.Standalone(b).Client(b)
	ctx := context.Background()
	do := func(words ...string) {
		b.Helper()
		if err := client.Do(ctx, client.B().Arbitrary(words...).Build()).Error(); err != nil {
			b.Fatal(err)
		}
	}
	for _, share := range []int64{1_000, 1_000_000, MaxPermits} {
		b.Run(strconv.FormatInt(share, 10)+" permits", func(b *testing.B) {
			shard := clocked{client: client, uptime: 1_000_000, ref: ShardKeys("", "t", strconv.FormatInt(share, 10))}
			p, now := proposal(b, 1, share, time.Second), int64(epoch0)
			take := func(gap, size int64, who int) {
				b.Helper()
				now += gap
				r := &TakeRequest{Proposal: p, Groups: []Group{{Size: size, Count: 1}}}
				if who >= 0 {
					r.Callers = []Caller{{ID: fmt.Sprintf("%016x", who), Weight: 1000}}
				}
				if _, err := shard.take(now, r); err != nil {
					b.Fatal(err)
				}
			}
			do("CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "100000")
			do("SLOWLOG", "RESET")
			for i := range b.N {
				for range 160 {
					take(1_000_000/128, max(share/200, 1), -1)
				}
				take(500_000, 1, -1)
				take(100_000, share, -1)
				for who := range 1000 {
					take(10, share/4, (who*7+i)%1000)
				}
				take(1_000_000, 1, -1)
				take(60_000_000, share, -1)
			}
			calls := durations(b, client)
			b.ReportMetric(float64(calls[len(calls)-1]), "us/longest")
			b.ReportMetric(float64(calls[len(calls)-1-len(calls)/1000]), "us/999-of-1000")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// durations returns how long the script calls in the server's log took, us, in ascending order.
func durations(tb testing.TB, client rueidis.Client) (all []int64) {
	tb.Helper()
	entries, err := client.Do(context.Background(), client.B().Arbitrary("SLOWLOG", "GET", "-1").Build()).ToArray()
	if err != nil {
		tb.Fatal(err)
	}
	for _, entry := range entries {
		fields, err := entry.ToArray()
		if err != nil {
			tb.Fatal(err)
		}
		words, err := fields[3].AsStrSlice()
		if err != nil {
			tb.Fatal(err)
		}
		us, err := fields[2].AsInt64()
		if err != nil {
			tb.Fatal(err)
		}
		if words[0] == "EVALSHA" {
			all = append(all, us)
		}
	}
	slices.Sort(all)
	return all
}
