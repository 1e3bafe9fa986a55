package script

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRetryIsExact is promise P7 on one shard: one that comes back after Retry and is alone gets
// what it asked for, one that comes a microsecond earlier does not.
func TestRetryIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log, s := &slidingTwin{}, newStage(t, AlgorithmSlidingLog)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			for _, step := range s.steps() {
				if step.take == nil {
					if step.settle != nil {
						log.Settle(step.now, *step.settle)
					}
					if step.book != nil {
						s.saw(log.Reserve(step.now, step.book).TakeReply)
					}
					continue
				}
				reply := log.Take(step.now, step.take)
				s.saw(reply)
				checkRetry(t, log, step, reply)
				if reply.Reset > 0 {
					later := cloned(log).Peek(step.now + int64(reply.Reset/time.Microsecond))
					if later.Used != 0 || later.Closed != 0 {
						t.Fatalf("%s: not empty after Reset: %+v", step, later)
					}
				}
				if reply.Free == 0 {
					checkNext(t, log, step, reply)
				} else if reply.Closed == 0 && reply.Next > 0 {
					at := step.now + int64(reply.Next/time.Microsecond)
					if sooner, then := cloned(log).Peek(at-1), cloned(log).Peek(at); sooner.Used != reply.Used ||
						then.Used >= reply.Used {
						t.Fatalf("%s: Next %v: used %d, just before %d, then %d", step, reply.Next,
							reply.Used, sooner.Used, then.Used)
					}
				}
			}
		}
	})
}

// checkNext: where nothing is free, Next tells when one permit can be granted, and where the target
// is none, when all have left.
func checkNext(t *rapid.T, log *slidingTwin, step step, reply TakeReply) {
	if reply.Closed > 0 || reply.Next == 0 {
		return
	}
	at := step.now + int64(reply.Next/time.Microsecond)
	look, err := newProposal(0, 0, 0, 0, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	one := &TakeRequest{Proposal: look, Groups: []Group{{Size: 1, Count: 1}}}
	sooner, then := cloned(log).Take(at-1, one), cloned(log).Take(at, one)
	if most := min(reply.Share, reply.Target); sooner.Granted != 0 || then.Granted != min(most, 1) ||
		most == 0 && then.Used != 0 {
		t.Fatalf("%s: %+v: just before Next %+v, then %+v", step, reply, sooner, then)
	}
}

func checkRetry(t *rapid.T, log *slidingTwin, step step, reply TakeReply) {
	asks, granted := Distribute(nil, reply.Before, step.take.Groups)
	if reply.Contended {
		asks = reply.Grants
	} else if granted != reply.Granted {
		t.Fatalf("%s: %d granted, Distribute says %d", step, reply.Granted, granted)
	}
	refused := int64(0)
	for i, group := range step.take.Groups {
		if asks[i] < group.Count {
			refused = group.Size
			break
		}
	}
	if reply.Status == Absent || reply.Status == Fenced {
		return
	}
	most := min(reply.Share, reply.Target)
	if reply.Closed > 0 {
		most = reply.Target
	}
	if refused == 0 || refused > most {
		want := time.Duration(0)
		if refused > 0 {
			want = -1
		}
		if reply.Retry != want {
			t.Fatalf("%s: retry %v, want %v", step, reply.Retry, want)
		}
		return
	}
	if reply.Contended && refused <= reply.Free {
		if reply.Retry != 0 {
			t.Fatalf("%s: %+v: enough is free, retry %v", step, reply, reply.Retry)
		}
		return
	}
	look, err := newProposal(0, 0, 0, 0, 0, false)
	if reply.Closed > 0 { // the share is put in force when the quarantine has ended
		look, err = newProposal(reply.Epoch, reply.Target, reply.Target, duration(log.window), keep, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	again := &TakeRequest{Proposal: look, Groups: []Group{{Size: refused, Count: 1}}}
	at := step.now + int64(reply.Retry/time.Microsecond)
	if reply.Retry <= 0 || cloned(log).Take(at, again).Granted != refused {
		t.Fatalf("%s: %+v: an ask of %d after Retry is refused", step, reply, refused)
	}
	if cloned(log).Take(at-1, again).Granted != 0 {
		t.Fatalf("%s: %+v: an ask of %d before Retry is granted", step, reply, refused)
	}
}

// table is a readable sequence of calls on one log.
type table struct {
	t   *testing.T
	log slidingTwin
}

func (b *table) propose(epoch, target, floor int64, window time.Duration, quarantine bool) *Proposal {
	b.t.Helper()
	p, err := newProposal(epoch, target, floor, window, 0, quarantine)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *table) take(now int64, p *Proposal, permits, granted int64) TakeReply {
	b.t.Helper()
	r := &TakeRequest{Proposal: p}
	if permits > 0 {
		r.Groups = []Group{{Size: 1, Count: permits}}
	}
	reply := b.log.Take(now, r)
	if reply.Granted != granted {
		b.t.Fatalf("at %d: %d granted of %d, want %d: %+v", now, reply.Granted, permits, granted, reply)
	}
	return reply
}

func TestLogIsBounded(t *testing.T) {
	for _, share := range []int64{1, 100, 128, 129, 1000, 10_000_000} {
		b, most := &table{t: t}, 0
		p := b.propose(1, share, share, time.Second, false)
		for now := int64(0); now < 4_000_000; now += 211 {
			b.log.Take(now, ones(p, 1))
			most = max(most, len(b.log.own.entries))
		}
		if most > exactLive+logCells+1 {
			t.Errorf("share %d: up to %d entries", share, most)
		}
	}
}
