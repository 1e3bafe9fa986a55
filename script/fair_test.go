package script

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/race"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func caller(number int) Caller {
	return Caller{ID: fmt.Sprintf("%016x", number), Weight: 1000}
}

// asking is a request of one participant.
func asking(p *Proposal, number int, count int64) *TakeRequest {
	return &TakeRequest{Proposal: p, Groups: []Group{{Size: 1, Count: count}}, Callers: []Caller{caller(number)}}
}

func TestContentionBeginsAndEnds(t *testing.T) {
	p := proposal(t, 1, 10, time.Second)
	reporting := func(unmet, waiting int64) *TakeRequest {
		r := asking(p, 1, 1)
		r.Callers[0].Unmet, r.Callers[0].Waiting = unmet, waiting
		return r
	}
	twin, now := newTwin(AlgorithmSlidingLog), int64(epoch0)
	for i, step := range []struct {
		later     int64 // us
		r         *TakeRequest
		contended bool
	}{
		{0, asking(p, 1, 10), false},
		{0, ones(p, 1), false},      // nobody is told of an anonymous caller's refusal
		{0, asking(p, 2, 1), false}, // the first refusal only begins it
		{1000, asking(p, 2, 1), true},
		{0, ones(p, 1), false},
		{2_000_000 - 1000, asking(p, 2, 1), false}, // two windows after the mark, which was not yet due to be moved
		{0, reporting(0, 1), false},
		{0, asking(p, 1, 1), true},
		{1_900_000, reporting(1, 0), true}, // demand that was not met keeps it up
		{1_900_000, asking(p, 1, 1), true},
	} {
		now += step.later
		reply := twin.Take(now, step.r)
		if reply.Contended != step.contended || (len(reply.Callers) > 0) != step.contended ||
			i == 3 && (reply.Granted != 0 || reply.Callers[0] != 0) {
			t.Errorf("step %d: %+v", i, reply)
		}
	}
}

// TestLedgerIsNoDanger: whatever happens to the ledger, nothing is granted that is not free, and
// what is not ours is left alone.
func TestLedgerIsNoDanger(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		ctx, endpoint, p := context.Background(), NewEndpoint(client), proposal(t, 1, 10, time.Hour)
		ref := ShardKeys(redistest.Prefix(t), "t", "limit")
		for n := range 3 {
			if _, err := endpoint.Take(ctx, ref, asking(p, n, 5)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := endpoint.Take(ctx, ref, asking(p, 1, 1)); err != nil {
			t.Fatal(err)
		}
		good, err := command(t, client, "HGETALL", ref.Ledger()).AsStrMap()
		if err != nil || len(good) != 3 {
			t.Fatalf("%q %v", good, err)
		}
		restore := func() {
			for field, text := range good {
				command(t, client, "HSET", ref.Ledger(), field, text)
			}
		}
		id, full := caller(1).ID, strings.Repeat("\xff", 50)
		for name, bad := range map[string][2]string{
			"count":     {"ledger", good["ledger"][:4] + full[:8] + good["ledger"][12:]},
			"short":     {"ledger", good["ledger"][:40]},
			"stub":      {"ledger", "SLC1"},
			"half":      {"ledger", good["ledger"][:12] + full[:8] + good["ledger"][20:]},
			"sums":      {"ledger", good["ledger"][:36] + full[:48]},
			"owed":      {"ledger", good["ledger"][:28] + full[:8] + good["ledger"][36:]},
			"all":       {id, full[:50]},
			"credit":    {id, good[id][:43] + full[:7]},
			"used":      {id, good[id][:36] + full[:7] + good[id][43:]},
			"waited":    {id, good[id][:18] + "\x03\xe9" + good[id][20:]}, // a thousandth more than all the time
			"no weight": {id, "\x00\x00\x00\x00" + good[id][4:]},
			"cut":       {id, good[id][:20]},
			"empty":     {id, ""},
			"gone":      {},
		} {
			command(t, client, "DEL", ref.Ledger())
			if name != "gone" {
				restore()
				command(t, client, "HSET", ref.Ledger(), bad[0], bad[1])
			}
			for n := range 6 {
				r := asking(p, n, 2)
				r.Rare, r.Contended = true, n%2 > 0
				reply, err := endpoint.Take(ctx, ref, r)
				if err != nil || reply.Granted != 0 || reply.Used != 10 {
					t.Errorf("%s: %+v %v", name, reply, err)
				}
			}
			if _, err := endpoint.Ledger(ctx, ref); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			kept, err := command(t, client, "HGETALL", ref.Ledger()).AsStrMap()
			if _, damaged := fairness.Standings(kept, 0, 1); err != nil || damaged != nil {
				t.Errorf("%s: it is kept: %q %v", name, kept, err)
			}
		}
		for _, words := range [][]string{{"SET", ref.Ledger(), "mine"}, {"HSET", ref.Ledger(), "mine", "too"},
			{"HSET", ref.Ledger(), "ledger", "of a later version"}, {"HSET", ref.Ledger(), id, "of another kind"}} {
			for name, call := range map[string]func() error{
				"take": func() error { _, err := endpoint.Take(ctx, ref, asking(p, 1, 1)); return err },
				"paced take": func() error {
					r := asking(p, 1, 1)
					r.Rare, r.Contended = true, true
					_, err := endpoint.Take(ctx, ref, r)
					return err
				},
				"ledger": func() error { _, err := endpoint.Ledger(ctx, ref); return err },
				"drop":   func() error { return endpoint.Drop(ctx, ref) },
			} {
				foreign(t, client, name, words, call)
			}
		}
		restore()
		if err := endpoint.Drop(ctx, ref); err != nil {
			t.Error(err)
		}
		if n, err := command(t, client, "DBSIZE").AsInt64(); err != nil || n != 0 {
			t.Errorf("%d keys: %v", n, err)
		}
	})
}

// TestMoreNamesThanAccounts: beyond the cap participants share an account, and silent ones make
// room while there is none; twin and script agree all along.
func TestMoreNamesThanAccounts(t *testing.T) {
	server := onSimulated(AlgorithmSlidingLog, 1_000_000)
	twin, p, now := newTwin(AlgorithmSlidingLog), proposal(t, 1, 50, time.Second), int64(1_700_000_000_000_000)
	fullest, many, left := 0, 2600, 400
	if race.Enabled {
		many = 1300 // everybody comes once instead of twice
	}
	for i := range many + 400 {
		n := i % 1300
		if i >= many { // most fall silent, and new names come
			n = 2000 + i%7
			now += 20_000
		}
		now += 300
		r := asking(p, n, 2)
		want := twin.Take(now, r)
		got, err := server.take(now, r)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%d: %v\ntwin   %+v\nserver %+v", i, err, want, got)
		}
		fullest = max(fullest, len(twin.Ledger(now).Standings))
	}
	if _, ledger := server.stored(); ledger != twin.accounts() {
		t.Error("the ledgers differ")
	}
	if last := len(twin.Ledger(now).Standings); fullest != fairness.MaxAccounts+1 || last > left {
		t.Errorf("%d accounts at most, %d at last", fullest, last)
	}
}

// newRising returns two rivals for a shard of 110 permits that is to have 200. One of them is
// entitled to more than the shard has so far: its weight is nine times the other's.
func newRising(t *testing.T, shard *twin, a Algorithm) *rivals {
	r := newRivals(t, shard, a, 110, rivalShare)
	r.waiting, r.weights, r.got = 100, []int64{9000, 1000}, make([]int64, 2)
	for range 600 {
		for who := range 2 {
			r.takes(who, 1, 5)
		}
		r.now += 5000
	}
	r.now += 220_000 // credit comes, and claims do not fade yet
	r.takes(1, 1, 1)
	return r
}

// TestARefundWhileAShareRisesCutsNoCredit: who gives permits back can take as many as before it had
// them, and what is left of its credit behind a booking can be taken.
func TestARefundWhileAShareRisesCutsNoCredit(t *testing.T) {
	everywhere(t, func(t *testing.T, shard *twin, a Algorithm) {
		r := newRising(t, shard, a)
		taken := r.takes(0, 1, 3)
		back := shard.Settle(r.now, SettleRequest{Back: 3, At: taken.At, Caller: r.caller(0)})
		if taken.Granted != 3 || back.Back != 3 {
			t.Fatalf("%+v, %+v", taken, back)
		}
		if got := r.takes(0, 1, 25).Granted; got < 20 {
			t.Errorf("%d of 25 granted", got)
		}
		r = newRising(t, newTwin(a), a)
		booked := r.shard.Reserve(r.now, &ReserveRequest{Proposal: r.proposal, Permits: 10, MaxDelay: time.Second,
			Caller: r.caller(0)})
		if booked.Granted != 10 {
			t.Fatalf("%+v", booked)
		}
		if got := r.takes(0, 1, 15).Granted; got < 10 {
			t.Errorf("%d of 15 granted behind a booking", got)
		}
	})
}

// everywhere runs a test on the twins of all algorithms but the leaky bucket, which books nothing
// ahead of its queue and takes back only the last turns it gave.
func everywhere(t *testing.T, test func(t *testing.T, twin *twin, a Algorithm)) {
	for a := range AlgorithmLeakyBucket {
		t.Run(a.String(), func(t *testing.T) { test(t, newTwin(a), a) })
	}
}

// rivals are participants of one shard with equal weights who all want more than there is, each in
// its own way.
type rivals struct {
	shard    *twin
	proposal *Proposal
	now      int64
	behave   []func(r *rivals, who int) (retry time.Duration)
	next     []int64
	got      []int64
	waiting  int64   // for so many their callers wait beside a take
	weights  []int64 // if they are not equal
}

const rivalShare = 200 // permits per second

func newRivals(t *testing.T, shard *twin, a Algorithm, floor, burst int64) *rivals {
	offer := Terms{Epoch: 1, Target: rivalShare, Floor: floor, Burst: burst, Window: time.Second, Algorithm: a}
	return &rivals{shard: shard, proposal: terms(t, offer), now: epoch0, waiting: 20}
}

func (r *rivals) caller(who int) Caller {
	c := caller(who)
	if c.Waiting = r.waiting; r.weights != nil {
		c.Weight = r.weights[who]
	}
	return c
}

func (r *rivals) join(count int, behave func(r *rivals, who int) time.Duration) {
	for range count {
		r.behave, r.next = append(r.behave, behave), append(r.next, r.now+int64(len(r.next))*137)
		r.got = append(r.got, 0)
	}
}

// run lets everybody come when it likes, for so many windows, and returns what each got in them.
func (r *rivals) run(windows int64) []int64 {
	clear(r.got)
	for end := r.now + windows*1_000_000; r.now < end; r.now += 500 {
		for who := range r.next {
			if r.next[who] <= r.now {
				r.next[who] = r.now + max(int64(r.behave[who](r, who)/time.Microsecond), 1)
			}
		}
	}
	return r.got
}

// takes asks for what is free, with more in line.
func (r *rivals) takes(who int, size, count int64) TakeReply {
	req := asks(r.proposal, size, count)
	req.Callers = []Caller{r.caller(who)}
	reply := r.shard.Take(r.now, req)
	r.got[who] += reply.Granted
	return reply
}

func taker(r *rivals, who int) time.Duration { return comeBack(r.takes(who, 1, 2)) }

// comeBack is when to come after a take.
func comeBack(reply TakeReply) time.Duration {
	switch {
	case reply.Contended && reply.Callers[0] > 0:
		return reply.Callers[0]
	case reply.Retry > 0:
		return reply.Retry
	}
	return 3 * time.Millisecond
}

// booker books two permits and comes again when they are due; if it is told to wait, then it does.
func booker(r *rivals, who int) time.Duration {
	req := &ReserveRequest{Proposal: r.proposal, Permits: 2, MaxDelay: time.Second, Caller: caller(who)}
	req.Caller.Waiting = 2
	reply := r.shard.Reserve(r.now, req)
	switch {
	case reply.Granted > 0:
		r.got[who] += reply.Granted
		return max(reply.Delay, time.Millisecond)
	case reply.Paced > 0:
		return reply.Paced
	}
	return max(reply.Retry, time.Millisecond)
}

// alternate does the one and then the other.
func alternate(r *rivals, who int) time.Duration {
	if taken := r.takes(who, 2, 1); taken.Granted > 0 {
		return time.Millisecond
	}
	return booker(r, who)
}

// Who books ahead gets its part, and not more than who takes what is free.
func TestBookingsAreNoWayAroundAPart(t *testing.T) {
	for name, behave := range map[string]func(*rivals, int) time.Duration{"books": booker,
		"takes and books": alternate} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, shard *twin, a Algorithm) {
				r := newRivals(t, shard, a, rivalShare, rivalShare/4)
				r.join(9, taker)
				r.join(1, behave)
				r.run(3)
				got := r.run(6)
				total := int64(0)
				for _, n := range got {
					total += n
				}
				t.Logf("%v, in all %d of %d", got, total, 6*rivalShare)
				if got[9]*10 > total*11/10 || got[9]*10 < total*8/10 {
					t.Errorf("the one that books got %d of %d, the others %v", got[9], total, got[:9])
				}
				if total < 6*rivalShare*95/100 {
					t.Errorf("%d of %d permits were used", total, 6*rivalShare)
				}
			})
		})
	}
}
