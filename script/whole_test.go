package script

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// A server that has the mark of its memory, and started before it was written or very soon after,
// has kept the rest too. Else it has what it has since it started.
func TestTheMarkTellsSinceWhenAServerHasItsMemory(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	for name, c := range map[string]struct {
		up, later int64 // seconds: for how long the server was up at first, and how much later it is asked
		upLater   int64 // and for how long it is up then
		status    Status
	}{
		"up all the time":                      {7200, 60, 7260, Fresh},
		"restarted at once":                    {7200, 60, 56, Fresh},
		"restarted later":                      {7200, 60, 55, Lost},
		"a replica that has just started":      {7200, 3, 0, Fresh},
		"restarted, and its clock is set back": {7200, -60, 1, Lost},
		"a replica whose clock is behind":      {7200, -1, 1, Fresh},
		"young, and restarted at once":         {60, 60, 56, Lost},
	} {
		t.Run(name, func(t *testing.T) {
			for _, full := range []bool{false, true} {
				tag := strings.ReplaceAll(t.Name(), " ", "") + map[bool]string{true: "full"}[full]
				var twin whole
				for i, at := range []struct {
					now, up int64
					status  Status
				}{{epoch0, c.up, Fresh}, {epoch0 + c.later*second, c.upLater, c.status}} {
					r := ones(proposal(t, 1, 10, time.Hour), 1)
					r.Rare, r.Known = full, 24*time.Hour
					if i == 0 {
						r.Known = 30 * time.Second // the limit is new
					}
					shard := onClocked(client, at.up, ShardKeys("", tag, string(rune('a'+i))))
					got, err := shard.take(at.now, r)
					if err != nil || got.Status != at.status {
						t.Errorf("full %v: %v of %+v, %v", full, at.status, got, err)
					}
					twin.runFor(time.Duration(at.up) * time.Second)
					if closed := duration(twin.shut(at.now, r)); closed != got.Closed {
						t.Errorf("full %v: closed for %v, the twin for %v", full, got.Closed, closed)
					}
				}
			}
		})
	}
}

// A mark that is none is told of, and nothing is written.
func TestADamagedMarkIsToldOf(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	ref := ShardKeys("", "damaged", "limit")
	mark := ref.whole(&TakeRequest{})
	r := ones(proposal(t, 1, 10, time.Hour), 1)
	r.Known = time.Hour
	for _, words := range [][]string{{"SET", mark, "x"}, {"SET", mark, "1 2 3"}, {"SET", mark, "2 1"},
		{"SET", mark, strings.Repeat("9", 20) + " 1700000000000000"}, {"RPUSH", mark, "1 2"}} {
		foreign(t, client, "take", words, func() error {
			_, err := NewEndpoint(client).Take(t.Context(), ref, r)
			return err
		})
	}
}

// So a young replica that is promoted and a server that restarts with all it had serve new keys.
func TestAServerThatKeptItsMemoryIsNotTakenForLost(t *testing.T) {
	old, young := redistest.Standalone(t), redistest.Standalone(t)
	p := proposal(t, 1, 10, time.Hour)
	take := func(on *redistest.Server, name string, known time.Duration) TakeReply {
		t.Helper()
		r := ones(p, 1)
		r.Known = known
		reply, err := NewEndpoint(on.Client(t)).Take(t.Context(), ShardKeys("", "t", name), r)
		must(t, err)
		return reply
	}
	// The old one has been up for long.
	now := time.Now().UnixMicro()
	mark := ShardKeys("", "t", "first").whole(&TakeRequest{})
	command(t, old.Client(t), "SET", mark, fmt.Sprint(now-int64(2*time.Hour/time.Microsecond), now))
	if r := take(old, "first", 2*time.Hour); r.Status != Fresh {
		t.Fatalf("%+v", r)
	}
	host, port, _ := strings.Cut(old.Addr(), ":")
	command(t, young.Client(t), "REPLICAOF", host, port)
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		n, err := command(t, young.Client(t), "EXISTS", ShardKeys("", "t", "first").Head()).AsInt64()
		if err == nil && n == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the replica does not get the key")
		}
	}
	command(t, young.Client(t), "REPLICAOF", "NO", "ONE")
	old.RestartKept()
	for _, on := range []*redistest.Server{young, old} {
		if r := take(on, "second", 2*time.Hour); r.Status != Fresh {
			t.Errorf("%+v", r)
		}
		command(t, on.Client(t), "FLUSHALL")
		if r := take(on, "second", 2*time.Hour); r.Status != Lost {
			t.Errorf("without its memory: %+v", r)
		}
	}
}
