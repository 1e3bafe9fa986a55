package dispatch

import (
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// section is the part of a script call for one batch or one key ask.
type section struct {
	script.Section // with the last reply
	shard          *Shard
	batch          *batch
	key            *KeyAsk
	groups         []script.Group  // its asks, as the script wants them
	callers        []script.Caller // those who ask
	grants         []int64
	take           script.TakeRequest
	terms          *Terms      // that were proposed, or in a slow call are to be; nil: those in force
	sent           atomic.Bool // and not known to have been left undone
}

// prepare fills in the request, for a call that begins now.
func (s *section) prepare(b basis, now int64) {
	sh, t := s.shard, b.terms()
	if s.callers = s.callers[:0]; !sh.Keyed {
		for _, acc := range s.batch.accounts {
			s.callers = append(s.callers, acc.Report(t.Shards))
		}
	}
	s.terms = t
	s.take.Groups, s.take.Callers = s.groups, s.callers
	s.take.Proposal = t.Proposal
	s.take.Relied = b.tell()
	s.take.Room, s.take.CallerRoom = s.grants[:0], s.take.CallerRoom[:0]
	// Rare asks for the full take at once: the calm one may fail, and far away there is no time for
	// a second call. After a rest much may have changed, and a participant that is refused
	// contends. Nor does the calm take tell the time to a call that must learn it.
	s.take.Rare = sh.Known.Rare.Load() || s.take.Fence == refused ||
		s.take.Fence != 0 && s.take.Deadline == script.Unconfirmed
	s.take.Contended = sh.Known.contended.Load() && sh.Known.Answered(now-int64(time.Second))
	if sh.Keyed {
		s.take.Rare = s.take.Rare || sh.sendQueue().far()
	} else if !sh.Known.Answered(now-int64(time.Second)) || sh.asked.Load() > sh.Expected(now) {
		s.take.Rare = true
	}
}

// relyOn fills in the request of an ask for a key as that of another one at the same place.
func (s *section) relyOn(o *section) {
	s.terms = o.terms
	s.take = script.TakeRequest{Proposal: o.take.Proposal, Relied: o.take.Relied, Groups: s.groups, Room: s.grants[:0],
		CallerRoom: s.take.CallerRoom[:0], Rare: o.take.Rare}
}

func (s *section) learn(c *call, received int64) {
	if s.absent() {
		s.sent.Store(false) // nothing was executed
		return
	}
	s.take.CallerRoom = s.Reply.Callers
	if s.key != nil {
		s.key.learn(c, received, s)
		return
	}
	c.heard(s.terms, received, &s.Reply)
	s.shard.Known.Rare.Store(s.take.Rare)
	s.shard.Known.contended.Store(s.take.Contended)
	for i, acc := range s.batch.accounts {
		acc.learn(c.Sent, received, &s.Reply, i)
	}
}

// absent reports whether the shard has no state, and was given none, or the call came after its
// fence.
func (s *section) absent() bool { return unserved(s.Reply.Status) && s.terms.Epoch != 0 }

// unserved reports whether a call did nothing.
func unserved(s script.Status) bool { return s == script.Absent || s == script.Fenced }

// deliver hands the grants out, by the rule the script used.
func (s *section) deliver(received int64) {
	b, r := s.batch, &s.Reply
	s.grants = r.Grants
	if s.key != nil {
		s.key.deliver(s, received)
		return
	}
	b.at, b.now, b.retry, b.rest = r.At, received, r.Retry, r.Free+elsewhere(s.shard, received)
	if s.shard.Paced {
		reply := *r
		b.paced = &reply
	}
	s.shard.answer(b, r.Grants, nil)
}

// refuse ends the asks of a call that failed, and those that wait behind it, so that they can go to
// another shard at once.
func (s *section) refuse(err error) {
	sh := s.shard
	if s.sent.Load() && !script.NotExecuted(err) {
		sh.env.Telemetry.Lost(sh.Metrics, s.wanted())
	}
	if s.key != nil {
		s.key.end(err)
		return
	}
	sh.answer(s.batch, nil, err)
	sh.endWaiting(err)
}

func (s *section) wanted() (n int64) {
	for _, g := range s.groups {
		n += g.Size * g.Count
	}
	return n
}
