package script

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// BenchmarkFairScript reports what a take costs inside a real server (commandstats, us) without
// callers, with one, and while participants contend.
func BenchmarkFairScript(b *testing.B) {
	client := redistest.Standalone(b).Client(b)
	text := retimed(recordPrograms + takeProgram)
	sha, err := client.Do(context.Background(), client.B().ScriptLoad().Script(text).Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		people int // 0: anonymous
		demand float64
		rate   int64 // calls per window of 1 s
	}{
		{0, 0.5, 5000}, {1, 0.5, 5000}, {1, 2, 5000}, {2, 2, 5000}, {50, 2, 5000}, {1000, 2, 5000}, {1000, 2, 50_000},
	} {
		b.Run(fmt.Sprintf("%d people %v demand %d calls", c.people, c.demand, c.rate), func(b *testing.B) {
			const share = 100_000
			ref, p := ShardKeys("", "t", b.Name()), proposal(b, 1, share, time.Second)
			round, now := 0, int64(1_700_000_000_000_000)
			batch := func(count int) {
				var commands []rueidis.Completed
				for range count {
					now += 1_000_000 / c.rate
					round++
					r := &TakeRequest{Proposal: p,
						Groups: []Group{{Size: 1, Count: int64(c.demand * share / float64(c.rate))}}}
					if c.people > 0 {
						n := round % c.people
						r.Callers = []Caller{{ID: fmt.Sprintf("%016x", n), Weight: 1000}}
						if c.demand > 1 && round%8 == 0 {
							r.Callers[0].Unmet = 1000
						}
					}
					commands = append(commands,
						client.B().Evalsha().Sha1(sha).Numkeys(2).Key(ref.head, ref.Ledger()).
							Arg(r.arguments(nil)...).Arg(strconv.FormatInt(now, 10)).Build())
				}
				for _, reply := range client.DoMulti(context.Background(), commands...) {
					if err := reply.Error(); err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := client.Do(context.Background(),
				client.B().Evalsha().Sha1(sha).Numkeys(2).Key(ref.head, ref.Ledger()).
					Arg((&TakeRequest{Proposal: p}).arguments(nil)...).Arg(strconv.FormatInt(now,
					10)).Build()).Error(); err != nil {
				b.Fatal(err)
			}
			for range 3 * c.rate / 16 {
				batch(16)
			}
			client.Do(context.Background(), client.B().ConfigResetstat().Build())
			for i := 0; i < b.N; i += 16 {
				batch(16)
			}
			b.ReportMetric(perCall(b, client, "evalsha"), "us/call")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkFairCallers reports what a take of 32 participants costs while a thousand contend, who
// have accounts or have none.
func BenchmarkFairCallers(b *testing.B) {
	const people, callers, share = 1000, 32, 5000
	client := redistest.Standalone(b).Client(b)
	text := retimed(recordPrograms + takeProgram)
	sha, err := client.Do(context.Background(), client.B().ScriptLoad().Script(text).Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}
	for name, strangers := range map[string]int{"known": 0, "strange": people} {
		b.Run(name, func(b *testing.B) {
			ref, p := ShardKeys("", "t", b.Name()), proposal(b, 1, share, time.Second)
			round, now := 0, int64(1_700_000_000_000_000)
			call := func(from int) {
				now += 2000
				r := &TakeRequest{Proposal: p}
				for s := range callers {
					r.Groups = append(r.Groups, Group{Size: 1, Count: 20, Caller: s})
					r.Callers = append(r.Callers, caller(round%people+from))
					round++
				}
				if err := client.Do(context.Background(),
					client.B().Evalsha().Sha1(sha).Numkeys(2).Key(ref.head, ref.Ledger()).
						Arg(r.arguments(nil)...).Arg(strconv.FormatInt(now, 10)).Build()).Error(); err != nil {
					b.Fatal(err)
				}
			}
			for range 4 * people / callers {
				call(0)
			}
			client.Do(context.Background(), client.B().ConfigResetstat().Build())
			for range b.N {
				call(strangers)
			}
			b.ReportMetric(perCall(b, client, "evalsha"), "us/call")
			b.ReportMetric(0, "ns/op")
		})
	}
}
