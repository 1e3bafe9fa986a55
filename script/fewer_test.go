package script

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// onItsWay is a shard of a cluster of two masters whose slot can be moved, key by key.
type onItsWay struct {
	*Endpoint
	ref     ShardRef
	cluster *redistest.Cluster
	client  rueidis.Client
	slot    int
	from    int
}

func movable(t *testing.T, cluster *redistest.Cluster, a Algorithm, tag string) onItsWay {
	t.Helper()
	s := onItsWay{ref: a.Keys("", tag, "limit"), cluster: cluster, client: cluster.Client(t)}
	s.Endpoint = NewEndpoint(s.client)
	slot, err := command(t, cluster.Masters()[0].Client(t), "CLUSTER", "KEYSLOT", s.ref.Head()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	s.slot, s.from = int(slot), int(slot)*2/16384
	return s
}

func (s onItsWay) begin() *redistest.Migration {
	return s.cluster.BeginMigration(s.slot, s.slot, 1-s.from)
}

// move moves one key alone.
func (s onItsWay) move(t *testing.T, key string) {
	t.Helper()
	masters := s.cluster.Masters()
	to := masters[1-s.from].Addr()
	command(t, masters[s.from].Client(t), "MIGRATE", "127.0.0.1", to[len("127.0.0.1:"):], key, "0", "5000")
}

// While the keys of a shard are on two servers no call is executed, and what is missing at one
// of them is not taken for lost.
func TestKeysOnTwoServersAreNotTakenForLost(t *testing.T) {
	cluster := redistest.NewCluster(t, 2, 0)
	for i, first := range []func(ShardRef) string{ShardRef.Head, ShardRef.Log} {
		s, p := movable(t, cluster, AlgorithmSlidingLog, "two"+strconv.Itoa(i)), proposal(t, 1, 100, time.Hour)
		take := func() (TakeReply, error) { return s.Take(t.Context(), s.ref, ones(p, 1)) }
		for n := range int64(5) {
			if r, err := take(); err != nil || r.Used != n+1 {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		migration := s.begin()
		if r, err := take(); err != nil || r.Used != 6 || r.Status != OK {
			t.Errorf("no key has moved: %+v, %v", r, err)
		}
		s.move(t, first(s.ref))
		for range 3 {
			if r, err := take(); !isTorn(err) || !NotExecuted(err) {
				t.Errorf("%s has moved alone: %+v, %v", first(s.ref), r, err)
			}
		}
		if _, err := s.Clear(t.Context(), s.ref); !isTorn(err) && !NotExecuted(err) {
			t.Errorf("Clear: %v", err)
		}
		migration.MoveKeys()
		if r, err := take(); err != nil || r.Used != 7 || r.Status != OK {
			t.Errorf("all keys have moved: %+v, %v", r, err)
		}
		if r, err := s.Peek(t.Context(), s.ref); err != nil || r.Used != 7 {
			t.Errorf("%+v, %v", r, err)
		}
		migration.Finish()
		if r, err := take(); err != nil || r.Used != 8 || r.Status != OK {
			t.Errorf("at its new place: %+v, %v", r, err)
		}
	}
}

// A slot on its way takes no new key, so a shard without a log stays without. All that is granted
// stands under the date of what was granted last.
func TestALogThatCannotBeMadeIsDoneWithout(t *testing.T) {
	cluster := redistest.NewCluster(t, 2, 0)
	s, p := movable(t, cluster, AlgorithmSlidingLog, "none"), proposal(t, 1, 20, time.Hour)
	first, err := s.Take(t.Context(), s.ref, ones(p, 1))
	if err != nil {
		t.Fatal(err)
	}
	migration := s.begin()
	last := first
	for n := range int64(19) {
		if last, err = s.Take(t.Context(), s.ref, ones(p, 1)); err != nil || last.Used != n+2 || last.Granted != 1 {
			t.Fatalf("%+v, %v", last, err)
		}
	}
	if r, err := s.Take(t.Context(), s.ref, ones(p, 1)); err != nil || r.Granted != 0 || r.Retry > time.Hour ||
		r.Retry < time.Hour-time.Duration(r.At-last.At)*time.Microsecond {
		t.Errorf("with nothing free: %+v, %v", r, err)
	}
	if r, err := s.Refund(t.Context(), s.ref, RefundRequest{Permits: 1, At: first.At}); err != nil || r.Refunded != 1 ||
		r.Free != 1 {
		t.Errorf("Refund: %+v, %v", r, err)
	}
	migration.MoveKeys()
	for range 2 {
		if r, err := s.Take(t.Context(), s.ref, ones(p, 1)); err != nil || r.Used != 20 {
			t.Errorf("at its new place: %+v, %v", r, err)
		}
	}
	if kind, err := command(t, s.client, "TYPE", s.ref.Log()).ToString(); err != nil || kind != "zset" {
		t.Errorf("the log is %q, %v", kind, err)
	}
	migration.Finish()
}

// However long an entry is prolonged: what was granted within it counts until the last has left.
func TestAnEntryMayBeProlongedForLongerThanTheWindow(t *testing.T) {
	cluster := redistest.NewCluster(t, 2, 0)
	s := movable(t, cluster, AlgorithmSlidingLog, "longer")
	p, err := NewProposal(1, 100, 100, 30*time.Millisecond, time.Hour, true)
	if err != nil {
		t.Fatal(err)
	}
	migration := (*redistest.Migration)(nil)
	for range 20 {
		if r, err := s.Take(t.Context(), s.ref, ones(p, 1)); err != nil || r.Granted != 1 || r.Status > Fresh {
			t.Fatalf("%+v, %v", r, err)
		}
		if migration == nil {
			migration = s.begin()
		}
		time.Sleep(15 * time.Millisecond) // less than the window: if it is longer, no harm
	}
	migration.Finish()
}

// A log whose entries have all left the window is a key no more. In a slot on its way that
// happens only when it is not needed any more: the shard would be taken for one that lost it.
func TestALogThatEmptiesOnItsWayIsNotTakenForLost(t *testing.T) {
	cluster := redistest.NewCluster(t, 2, 0)
	s := movable(t, cluster, AlgorithmSlidingLog, "emptied")
	p, err := NewProposal(1, 100, 100, 60*time.Millisecond, time.Hour, true)
	if err != nil {
		t.Fatal(err)
	}
	take := func() TakeReply {
		r, err := s.Take(t.Context(), s.ref, ones(p, 1))
		if err != nil || r.Granted != 1 || r.Status > Fresh {
			t.Fatalf("%+v, %v", r, err)
		}
		return r
	}
	take()
	take()
	migration := s.begin()
	for range 40 {
		r := take()
		if r.Status != OK {
			t.Fatalf("%+v", r)
		}
		// So that what is in the log has left, and what was granted last has not: if it comes
		// later, no harm.
		time.Sleep(40 * time.Millisecond)
	}
	migration.Finish()
	if r := take(); r.Status != OK {
		t.Errorf("%+v", r)
	}
}

// The head of an idle shard outlives its log. Such a shard serves on, unless the log is elsewhere.
func TestALogThatExpiredBeforeTheHeadIsNotMissed(t *testing.T) {
	cluster := redistest.NewCluster(t, 2, 0)
	for _, expired := range []bool{true, false} {
		s := movable(t, cluster, AlgorithmSlidingLog, "idle"+strconv.FormatBool(expired))
		p, err := NewProposal(1, 100, 100, 5*time.Millisecond, time.Hour, true)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := s.Take(t.Context(), s.ref, ones(p, 1)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Millisecond) // more than the window: what it holds has left
		if expired {
			command(t, s.client, "DEL", s.ref.Log())
		}
		migration := s.begin()
		if !expired {
			s.move(t, s.ref.Head())
		}
		for range 3 {
			r, err := s.Take(t.Context(), s.ref, ones(p, 1))
			if expired && (err != nil || r.Status != OK || r.Granted != 1) ||
				!expired && (!isTorn(err) || !NotExecuted(err)) {
				t.Errorf("expired %t: %+v, %v", expired, r, err)
			}
		}
		migration.MoveKeys()
		for range 3 {
			if r, err := s.Take(t.Context(), s.ref, ones(p, 1)); err != nil || r.Granted != 1 || r.Status != OK {
				t.Errorf("expired %t: %+v, %v", expired, r, err)
			}
		}
		migration.Finish()
	}
}

// Whoever contends shares again when the slot has arrived, and no key is made that exists
// elsewhere.
func TestTheBookIsLeftAloneOnTheWay(t *testing.T) {
	cluster := redistest.NewCluster(t, 2, 0)
	for a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			s := movable(t, cluster, a, "ledger"+a.String())
			terms := Terms{Epoch: 1, Target: 4, Floor: 4, Window: time.Hour, Quarantine: true, Algorithm: a}
			if a.bursty() {
				terms.Burst = 4
			}
			p, err := terms.Proposal()
			if err != nil {
				t.Fatal(err)
			}
			callers := []Caller{{ID: "aaaaaaaaaaaaaaaa", Slot: -1, Weight: 1000},
				{ID: "bbbbbbbbbbbbbbbb", Slot: -1, Weight: 1000}}
			contend := func(when string) (r TakeReply) {
				t.Helper()
				for i := range 6 {
					var err error
					if r, err = s.Take(t.Context(), s.ref, &TakeRequest{
						Proposal: p, Groups: []Group{{Size: 1, Count: 3}}, Callers: callers[i%2 : i%2+1],
					}); err != nil {
						t.Fatalf("%s: %+v, %v", when, r, err)
					}
				}
				return r
			}
			if r := contend("before"); !r.Contended {
				t.Errorf("%+v", r)
			}
			migration := s.begin()
			if r := contend("no key has moved"); !r.Contended {
				t.Errorf("%+v", r)
			}
			s.move(t, s.ref.Head())
			if log := s.ref.Log(); log != "" {
				s.move(t, log)
			}
			if r := contend("but for the ledger"); r.Contended {
				t.Errorf("%+v", r)
			}
			if b, err := s.Ledger(t.Context(), s.ref); err == nil && len(b.Standings) > 0 {
				t.Errorf("%+v", b)
			}
			s.move(t, s.ref.Ledger()) // fails if there is one already
			migration.Finish()
			var last TakeReply
			for range 1 + fewerCalls/6 {
				last = contend("at its new place")
			}
			if !last.Contended {
				t.Errorf("%+v", last)
			}
			if err := s.Drop(t.Context(), s.ref); err != nil {
				t.Error(err)
			}
		})
	}
}

// Records are read, written and dropped on the way, with participants or without.
func TestRecordsOnTheWay(t *testing.T) {
	cluster := redistest.NewCluster(t, 2, 0)
	read := ReadRecordRequest{Participant: "me", ParticipantTTL: time.Minute, Keep: time.Hour}
	for i, before := range []func(context.Context, onItsWay, RecordRef) error{
		func(context.Context, onItsWay, RecordRef) error { return nil },
		func(ctx context.Context, s onItsWay, ref RecordRef) error {
			_, _, err := s.WriteRecord(ctx, ref, WriteRecordRequest{Epoch: 1, Blob: []byte("x"), Keep: time.Hour})
			return err
		},
		func(ctx context.Context, s onItsWay, ref RecordRef) error {
			_, err := s.ReadRecord(ctx, ref, read)
			return err
		},
	} {
		tag := "record" + strconv.Itoa(i)
		s, ref := movable(t, cluster, AlgorithmSlidingLog, tag), RecordKeys("", tag, "limit")
		if err := before(t.Context(), s, ref); err != nil {
			t.Fatal(err)
		}
		migration := s.begin()
		for _, when := range []string{"no key has moved", "all keys have moved"} {
			if _, err := s.ReadRecord(t.Context(), ref, read); err != nil {
				t.Errorf("case %d, %s: %v", i, when, err)
			}
			if _, _, err := s.WriteRecord(t.Context(), ref,
				WriteRecordRequest{Expect: ExpectOlder, Epoch: 2, Blob: []byte("y"), Keep: time.Hour}); err != nil {
				t.Errorf("case %d, %s: %v", i, when, err)
			}
			if r, err := s.ReadRecord(t.Context(), ref, read); err != nil || r.Epoch != 2 || string(r.Blob) != "y" {
				t.Errorf("case %d, %s: %+v, %v", i, when, r, err)
			}
			migration.MoveKeys()
		}
		if err := s.DropRecord(t.Context(), ref); err != nil {
			t.Error(err)
		}
		migration.Finish()
		if r, err := s.ReadRecord(t.Context(), ref, ReadRecordRequest{}); err != nil || r.Exists {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// After some calls with fewer keys all are tried again.
func TestFewerKeysAreDeclaredForAWhile(t *testing.T) {
	var m moving
	if n := m.known("a"); n != 0 {
		t.Errorf("%d keys", n)
	}
	m.note("a", 2)
	for range fewerCalls {
		m.note("a", 2)
		if n := m.known("a"); n != 2 {
			t.Fatalf("%d keys", n)
		}
	}
	if n := m.known("a"); n != 0 || m.some.Load() {
		t.Errorf("%d keys, some: %t", n, m.some.Load())
	}
	for i := range 3 * mostMoving {
		m.note(strconv.Itoa(i), 1)
	}
	if len(m.keys) > mostMoving {
		t.Errorf("%d keys remembered", len(m.keys))
	}
}
