package script

import (
	"bytes"
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
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

// TestRecordsAreTheSameOnTheSimulatedServer: the scripts of records call other commands than those
// of shards. Reads, writes and drops say and leave the same on the simulated server and on
// miniredis.
func TestRecordsAreTheSameOnTheSimulatedServer(t *testing.T) {
	mini := miniredis.RunT(t)
	there := NewEndpoint(miniClient(t, mini))
	rapid.Check(t, func(t *rapid.T) {
		mini.FlushAll()
		ref := RecordKeys("", "t", "limit")
		sim := newSimulated(0, ref.record, ref.participants)
		here := NewEndpoint(sim.client)
		now := int64(epoch0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += rapid.SampledFrom([]int64{0, 1, 1_000_000, 60_000_000, -5_000_000, 3_600_000_000}).Draw(t, "later")
			mini.SetTime(time.UnixMicro(now))
			sim.SetTime(time.UnixMicro(now))
			act := recordAct(t, ref)
			want, wrong := act(there)
			got, err := act(here)
			if !reflect.DeepEqual(want, got) || (err == nil) != (wrong == nil) {
				t.Fatalf("miniredis %+v, %v\nsimulated %+v, %v", want, wrong, got, err)
			}
			left, kept := recordOn(there.client, ref), recordOn(here.client, ref)
			if !reflect.DeepEqual(left, kept) {
				t.Fatalf("miniredis keeps %q\nsimulated %q", left, kept)
			}
		}
	})
}

// recordAct draws what is done with a record.
func recordAct(t *rapid.T, ref RecordRef) func(*Endpoint) (any, error) {
	ctx := context.Background()
	switch rapid.IntRange(0, 5).Draw(t, "act") {
	case 0:
		return func(e *Endpoint) (any, error) { return nil, e.DropRecord(ctx, ref) }
	case 1, 2:
		w := WriteRecordRequest{Keep: time.Hour, Settled: rapid.Bool().Draw(t, "settled")}
		w.Expect = rapid.SampledFrom([]int64{ExpectOlder, 0, 1, 2, 3}).Draw(t, "expected")
		w.Epoch = rapid.Int64Range(max(w.Expect, 1), 4).Draw(t, "epoch")
		w.Blob = bytes.Repeat([]byte{byte(w.Epoch)}, rapid.IntRange(1, 300).Draw(t, "blob"))
		w.BornAge = rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(t, "age")
		return func(e *Endpoint) (any, error) {
			record, written, err := e.WriteRecord(ctx, ref, w)
			return []any{record, written}, err
		}
	}
	r := ReadRecordRequest{}
	if rapid.IntRange(0, 3).Draw(t, "participant") > 0 {
		r.Participant = rapid.SampledFrom([]string{"a", "b", "c", "ü\x00"}).Draw(t, "name")
		r.ParticipantTTL, r.Keep = time.Minute, time.Hour
	}
	return func(e *Endpoint) (any, error) { return e.ReadRecord(ctx, ref, r) }
}

// recordOn is what a server has stored of a record.
func recordOn(client rueidis.Client, ref RecordRef) any {
	ctx := context.Background()
	fields, _ := client.Do(ctx, client.B().Hmget().Key(ref.record).Field("epoch", "settled", "born", "blob").Build()).
		AsStrSlice()
	names, err := client.Do(ctx, client.B().Zrange().Key(ref.participants).Min("0").Max("-1").Build()).AsStrSlice()
	if err != nil {
		panic(err)
	}
	return []any{fields, names}
}
