package script

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// BenchmarkScript reports what one take costs inside a real server (commandstats, us), with a clock
// that the benchmark moves. The script pays for TIME and then takes the time from its last
// argument.
func BenchmarkScript(b *testing.B) {
	server := redistest.Standalone(b)
	client := server.Client(b)
	text := retimed(recordPrograms + takeProgram)
	sha, err := client.Do(context.Background(), client.B().ScriptLoad().Script(text).Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		share int64
		size  int64
		gap   func(i int) int64 // us since the call before, in a window of 1 s
	}{
		{"merge 15 of 16", 1_000_000, 1, func(i int) int64 { return 1_000_000 / 128 / 16 }},
		{"merge", 1_000_000_000, 1, func(i int) int64 { return 10 }},
		{"open and trim", 1_000_000, 1, func(i int) int64 { return 1_000_000 / 128 }},
		{"exact, open and trim", 100, 1, func(i int) int64 { return 10_001 }},
		{"denied", 100, 1, func(i int) int64 { return 0 }},
		{"denied, several permits", 100, 50, func(i int) int64 { return 0 }},
		{"half expired", 1_000_000, 1, func(i int) int64 {
			if i%64 == 0 {
				return 500_000
			}
			return 1_000_000 / 128
		}},
		{"all expired", 1_000_000, 1, func(i int) int64 { return 1_000_001 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			ref := ShardKeys("", "t", c.name)
			p, err := newProposal(1, c.share, c.share, time.Second, time.Hour, false)
			if err != nil {
				b.Fatal(err)
			}
			now := int64(1_700_000_000_000_000)
			call := func(gap, size int64) rueidis.Completed {
				now += gap
				r := &TakeRequest{Proposal: p, Groups: []Group{{Size: size, Count: 1}}}
				return client.B().Evalsha().Sha1(sha).Numkeys(2).Key(ref.head, ref.Ledger()).
					Arg(r.arguments(nil)...).Arg(strconv.FormatInt(now, 10)).Build()
			}
			fill(b, client, func() rueidis.Completed { return call(10_000, 1) }, 100)
			client.Do(context.Background(), client.B().ConfigResetstat().Build())
			for i := 0; i < b.N; {
				batch := make([]rueidis.Completed, 0, 16)
				for ; i < b.N && len(batch) < 16; i++ {
					batch = append(batch, call(c.gap(i), c.size))
				}
				for _, reply := range client.DoMulti(context.Background(), batch...) {
					if err := reply.Error(); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(perCall(b, client, "evalsha"), "us/call")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func fill(tb testing.TB, client rueidis.Client, call func() rueidis.Completed, times int) {
	tb.Helper()
	for range times {
		if err := client.Do(context.Background(), call()).Error(); err != nil {
			tb.Fatal(err)
		}
	}
}

// perCall reads how long the server took for one command of a kind, us.
func perCall(tb testing.TB, client rueidis.Client, command string) float64 {
	tb.Helper()
	info, err := client.Do(context.Background(), client.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		tb.Fatal(err)
	}
	match := regexp.MustCompile("cmdstat_" + command + `:.*usec_per_call=([0-9.]+)`).FindStringSubmatch(info)
	if match == nil {
		tb.Fatalf("no statistics of %s", command)
	}
	us, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		tb.Fatal(err)
	}
	return us
}

// BenchmarkTake reports what a take costs this process, and its allocations.
func BenchmarkTake(b *testing.B) {
	endpoint := NewEndpoint(redistest.Standalone(b).Client(b))
	p, err := newProposal(1, MaxPermits, MaxPermits, time.Second, 0, true)
	if err != nil {
		b.Fatal(err)
	}
	ref := ShardKeys("", "t", "limit")
	r := &TakeRequest{Proposal: p, Relied: Relied{Known: time.Hour},
		Groups: []Group{{Size: 1, Count: 17}}, Room: make([]int64, 0, 1)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := endpoint.Take(context.Background(), ref, r); err != nil {
			b.Fatal(err)
		}
	}
}
