package dispatch

import (
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// section is one batch's part of a script call, or that of an ask for a key that has none.
type section struct {
	shard   *Shard
	batch   *batch
	key     *KeyAsk
	groups  []script.Group  // its asks, as the script wants them
	callers []script.Caller // those who ask
	grants  []int64
	req     script.TakeRequest
	terms   *Terms // that were proposed
	reply   script.TakeReply
	sent    atomic.Bool // and not known to have been left undone
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
	s.req.Groups, s.req.Callers = s.groups, s.callers
	s.req.Proposal = t.Proposal
	s.req.Relied = b.tell()
	s.req.Room, s.req.CallerRoom = s.grants[:0], s.req.CallerRoom[:0]
	// From afar there is no time for a second call: after a rest much may have changed, and whoever
	// has a name and is refused contends. Of a key the process knows little. Nor does the calm take
	// tell the time to who is refused, or has no word for a share, until he knows it.
	s.req.Rare = sh.Known.Rare.Load() || s.req.Fence == refused ||
		s.req.Fence != 0 && s.req.Deadline == script.Unconfirmed
	s.req.Contended = sh.Known.contended.Load() && sh.Known.Answered(now-int64(time.Second))
	if sh.Keyed {
		s.req.Rare = s.req.Rare || sh.sendQueue().far()
	} else if !sh.Known.Answered(now-int64(time.Second)) || sh.asked.Load() > sh.Expected(now) {
		s.req.Rare = true
	}
}

// relyOn fills in the request of an ask for a key as that of another one at the same place.
func (s *section) relyOn(o *section) {
	s.terms = o.terms
	s.req = script.TakeRequest{Proposal: o.req.Proposal, Relied: o.req.Relied, Groups: s.groups, Room: s.grants[:0],
		CallerRoom: s.req.CallerRoom[:0], Rare: o.req.Rare}
}

func (s *section) learn(c *call, received int64) {
	if s.absent() {
		s.sent.Store(false) // nothing was executed
		return
	}
	s.req.CallerRoom = s.reply.Callers
	if s.key != nil {
		s.key.learn(c, received, s)
		return
	}
	c.heard(s.terms, received, &s.reply)
	s.shard.Known.Rare.Store(s.req.Rare)
	s.shard.Known.contended.Store(s.req.Contended)
	for i, acc := range s.batch.accounts {
		acc.learn(c.Sent, received, &s.reply, i)
	}
}

// absent reports whether the shard has no state, and was given none, or the call came after its
// fence.
func (s *section) absent() bool { return unserved(s.reply.Status) && s.terms.Epoch != 0 }

// unserved reports whether a call did nothing.
func unserved(s script.Status) bool { return s == script.Absent || s == script.Fenced }

// deliver hands the grants out, by the rule the script used.
func (s *section) deliver(received int64) {
	b, r := s.batch, &s.reply
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
