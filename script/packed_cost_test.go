package script

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// BenchmarkPackedScript reports what one take costs inside a real server (commandstats, us), as
// BenchmarkScript does for the sliding log.
func BenchmarkPackedScript(b *testing.B) {
	client := redistest.Standalone(b).Client(b)
	for _, a := range allAlgorithms {
		number := ShardRef{algorithm: a}.program(takeProgram)
		text := retimed(number)
		sha, err := client.Do(context.Background(), client.B().ScriptLoad().Script(text).Build()).ToString()
		if err != nil {
			b.Fatal(err)
		}
		for name, gap := range map[string]int64{"granted": 1_000, "denied": 0} {
			b.Run(a.String()+" "+name, func(b *testing.B) {
				ref, now := a.Keys("", "t", name), int64(epoch0)
				p := terms(b,
					Terms{Epoch: 1, Target: 1_000, Floor: 1_000, Window: time.Second, Keep: time.Hour, Algorithm: a})
				call := func(size int64) rueidis.Completed {
					now += gap
					r := &TakeRequest{Proposal: p, Groups: []Group{{Size: size, Count: 1}}}
					return client.B().Evalsha().Sha1(sha).Numkeys(2).Key(ref.head, ref.Ledger()).
						Arg(r.arguments(nil)...).Arg(strconv.FormatInt(now, 10)).Build()
				}
				fill(b, client, func() rueidis.Completed { return call(1_000) }, 1)
				now += 10_000
				client.Do(context.Background(), client.B().ConfigResetstat().Build())
				for i := 0; i < b.N; {
					batch := make([]rueidis.Completed, 0, 16)
					for ; i < b.N && len(batch) < 16; i++ {
						batch = append(batch, call(1+(999*(1-min(gap, 1)))))
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
}
