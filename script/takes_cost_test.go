package script

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// BenchmarkTakes reports what one section of a call for 64 shards costs inside a real server
// (commandstats, us), by how often the key is called: first, second, one of some hundred, and one
// that is denied.
func BenchmarkTakes(b *testing.B) {
	server := redistest.Standalone(b)
	client := server.Client(b)
	endpoint := NewEndpoint(client)
	for _, a := range allAlgorithms {
		for _, c := range []struct {
			name   string
			share  int64
			before int // calls of each key before
		}{{"first", 1000, 0}, {"second", 1000, 1}, {"second of 100", 100, 1}, {"often", 1000, 30}, {"denied", 1, 1}} {
			takesOf(b, endpoint, a, c.share)(0, 64) // loads the script
			b.Run(a.String()+" "+c.name, func(b *testing.B) {
				if err := client.Do(context.Background(), client.B().Flushall().Build()).Error(); err != nil {
					b.Fatal(err)
				}
				takes := takesOf(b, endpoint, a, c.share)
				keys := b.N * 64 / max(c.before, 1)
				if c.before == 30 {
					keys = 2048
					for i := range 30 * keys / 64 {
						takes(i*64, keys)
					}
				} else if c.before > 0 {
					keys = b.N * 64
					for i := range b.N {
						takes(i*64, keys)
					}
				}
				client.Do(context.Background(), client.B().ConfigResetstat().Build())
				for i := range b.N {
					takes(i*64, keys)
				}
				b.ReportMetric(perCall(b, client, "evalsha")/64, "us/section")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// takesOf returns what takes a permit of each of 64 keys from a first one on.
func takesOf(b *testing.B, e *Endpoint, a Algorithm, share int64) func(first, keys int) {
	p := terms(b, Terms{Epoch: 1, Target: share, Floor: share, Window: time.Hour, Keep: time.Hour, Algorithm: a})
	r := &TakeRequest{Proposal: p, Groups: []Group{{Size: 1, Count: 1}}, Relied: Relied{Known: time.Minute},
		Callers: []Caller{{ID: "0123456789abcdef", Weight: 1000}}}
	return func(first, keys int) {
		sections := make([]Section, 64)
		for i := range sections {
			sections[i] = Section{Ref: a.Keys("", "t", fmt.Sprint((first+i)%keys)), Request: r}
		}
		if err := e.TakeAll(context.Background(), sections); err != nil {
			b.Fatal(err)
		}
		for _, s := range sections {
			if s.Err != nil {
				b.Fatal(s.Err)
			}
		}
	}
}
