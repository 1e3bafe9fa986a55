package script

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// BenchmarkFarBookings reports what a take of a TokenBucket costs inside a real server
// (commandstats, us) while single permits are booked ahead, each by itself.
func BenchmarkFarBookings(b *testing.B) {
	client := redistest.Standalone(b).Client(b)
	endpoint := NewEndpoint(client)
	for _, burst := range []int64{1, 10, 1000} {
		for _, booked := range []int64{0, 64, 500, 1500} {
			b.Run(fmt.Sprintf("burst %d, %d booked", burst, booked), func(b *testing.B) {
				p := terms(b, Terms{Epoch: 1, Target: 1, Floor: 1, Window: time.Minute, Keep: time.Hour,
					Algorithm: AlgorithmTokenBucket, Burst: burst})
				ref := AlgorithmTokenBucket.Keys("", "t", b.Name())
				take := &TakeRequest{Proposal: p, Known: time.Hour, Groups: []Group{{Size: 1, Count: burst}},
					Room: make([]int64, 0, 1)}
				if _, err := endpoint.Take(context.Background(), ref, take); err != nil {
					b.Fatal(err)
				}
				held := int64(0)
				for range booked {
					r := farBooking(p, 1)
					r.Known = time.Hour
					reply, err := endpoint.Reserve(context.Background(), ref, r)
					if err != nil {
						b.Fatal(err)
					}
					held += reply.Granted
				}
				client.Do(context.Background(), client.B().ConfigResetstat().Build())
				for b.Loop() {
					if _, err := endpoint.Take(context.Background(), ref, take); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(perCall(b, client, "evalsha"), "us/call")
				b.ReportMetric(float64(held), "booked")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
