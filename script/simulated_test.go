package script

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/redissim"
)

// simulated is the server of histories and of tests in simulated time. It runs the scripts as they
// are, over commands of its own: so its replies, and what it stores, are compared as a server's
// are.
type simulated struct {
	*redissim.Server
	client rueidis.Client
	now    time.Time // its TIME
	kept   []string  // keys that are kept from expiring, which twins know nothing of
}

// ages are for how long a server may have been up.
var ages = []int64{0, 1, 30, 1_000_000_000}

// newSimulated returns a server that has been up for so many seconds. Its clock stands still; its
// TIME is set.
func newSimulated(uptime int64, keys ...string) *simulated {
	begun := time.UnixMicro(epoch0)
	clock := begun
	s := &simulated{Server: redissim.NewServer(func() time.Time { return clock }), kept: keys}
	s.Restart() // it is up since then
	clock = begun.Add(time.Duration(uptime) * time.Second)
	s.now, s.client = clock, s.Direct()
	return s
}

// SetTime sets the server's TIME.
func (s *simulated) SetTime(now time.Time) {
	for _, key := range s.kept {
		s.client.Do(context.Background(), s.client.B().Pexpire().Key(key).Milliseconds(1<<40).Build())
	}
	s.Step(now.Sub(s.now))
	s.now = now
}

// simulatedShard is a shard on such a server. How long its keys live is not compared.
type simulatedShard struct{ emulated }

func (simulatedShard) lives() []int64 { return nil }

func onSimulated(uptime int64, a Algorithm) emulated {
	ref := a.Keys("", "t", "limit")
	s := newSimulated(uptime, ref.head, ref.Ledger())
	return emulated{server: s, endpoint: NewEndpoint(s.client), ref: ref}
}

// TestTwinAgreesWithTheSimulatedServer: what histories find on the simulated server holds for real
// ones, which are compared with the same twins.
func TestTwinAgreesWithTheSimulatedServer(t *testing.T) {
	t.Parallel()
	for _, a := range allAlgorithms {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				uptime := rapid.SampledFrom(ages).Draw(t, "uptime")
				server := onSimulated(uptime, a)
				twin := NewTwin(a).(packedTwin)
				twin.runFor(time.Duration(uptime) * time.Second)
				agreePacked(t, a, twin, simulatedShard{server})
			})
		})
	}
}
