package script

import (
	"testing"
	"time"
)

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
}

const rivalShare = 200 // permits per second

func newRivals(t *testing.T, shard *twin, a Algorithm) *rivals {
	offer := Terms{Epoch: 1, Target: rivalShare, Floor: rivalShare, Window: time.Second, Algorithm: a}
	if a == AlgorithmTokenBucket {
		offer.Burst = rivalShare / 4
	}
	return &rivals{shard: shard, proposal: terms(t, offer), now: epoch0}
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
	req := &TakeRequest{Proposal: r.proposal, Groups: []Group{{Size: size, Count: count}},
		Callers: []Caller{caller(who)}}
	req.Callers[0].Waiting = 20
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
				r := newRivals(t, shard, a)
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
