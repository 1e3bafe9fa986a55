package script

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRetryIsExact is promise P7 on one shard, beside bookings and settlements and while its limit
// changes.
func TestRetryIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log, s := newTwin(AlgorithmSlidingLog), newStage(t, AlgorithmSlidingLog)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			for _, step := range s.steps() {
				switch {
				case step.settle != nil:
					log.Settle(step.now, *step.settle)
				case step.book != nil:
					s.saw(log.Reserve(step.now, step.book).TakeReply)
				case step.take != nil:
					reply := log.Take(step.now, step.take)
					s.saw(reply)
					exact(t, log, step.now, step.take, &reply)
				}
			}
		}
	})
}

// exact sees that the waits of a reply are. One that comes back after Retry and is alone gets what
// it asked for, one that comes a microsecond earlier does not. What is in use comes back from Next
// on, or where nothing is free, so much that a permit is; until Reset all has. TestLostMemory is
// about the quarantine.
func exact(t *rapid.T, shard *twin, now int64, r *TakeRequest, reply *TakeReply) {
	if reply.Status == Absent || reply.Status == Fenced || reply.Closed > 0 {
		return
	}
	in := func(wait time.Duration) PeekReply { return shard.Peek(now + int64(wait/time.Microsecond)) }
	refused, most := int64(0), min(reply.Share, reply.Target)
	if r.Proposal.algorithm.Bursty() {
		most = r.Proposal.burst
	}
	for i, group := range r.Groups {
		if reply.Grants[i] < group.Count {
			refused = group.Size
			break
		}
	}
	sound := false
	switch {
	case refused == 0, reply.Contended && refused <= reply.Free:
		sound = reply.Retry == 0
	case refused > most:
		sound = reply.Retry == -1
	default:
		sound = reply.Retry > 0 && in(reply.Retry).Free >= refused && in(reply.Retry-time.Microsecond).Free < refused
	}
	if reply.Next > 0 {
		before, then := in(reply.Next-time.Microsecond), in(reply.Next)
		if reply.Free == 0 {
			sound = sound && before.Free == 0 && (then.Free > 0 || most == 0 && then.Used == 0)
		} else {
			sound = sound && before.Used == reply.Used && then.Used < reply.Used
		}
	}
	if reply.Reset > 0 {
		sound = sound && in(reply.Reset-time.Microsecond).Used > 0 && in(reply.Reset).Used == 0
	}
	if !sound {
		t.Fatalf("at %d %+v of %+v:\n%+v", now, r, r.Proposal, reply)
	}
}

// table is a readable sequence of calls on one log.
type table struct {
	t   *testing.T
	log *twin
}

func newTable(t *testing.T) *table { return &table{t: t, log: newTwin(AlgorithmSlidingLog)} }

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
		b, most := newTable(t), 0
		p := proposal(t, 1, share, time.Second)
		for now := int64(0); now < 4_000_000; now += 211 {
			b.log.Take(now, ones(p, 1))
			most = max(most, len(b.log.own.(*log).entries))
		}
		if most > exactLive+logCells+1 {
			t.Errorf("share %d: up to %d entries", share, most)
		}
	}
}
