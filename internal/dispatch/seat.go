package dispatch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/script"
)

// Member is a participant of this process, as shards are told of it.
type Member struct {
	ID     string
	Weight int64 // in thousandths

	// Unmet counts the permits of calls that were finally denied. Every
	// shard is told of those since it was last told, so that it knows who wants more than it gets.
	Unmet  atomic.Int64
	Wanted atomic.Int64 // permits that its line still wanted when it last could not be served
}

// Seat is a participant's place at one shard, as far as fairness goes.
type Seat struct {
	member *Member
	Lane   *Lane

	// notBefore is when the shard wants to see this participant again, on the
	// process' clock: until then its part is used up, though permits may be free.
	notBefore atomic.Int64
	lookAt    atomic.Int64 // when the shard is looked at although the participant is paced
	reported  atomic.Int64 // of Member.Unmet
}

// NewSeat returns the seat of a member at the shard that a lane leads to.
func NewSeat(m *Member, l *Lane) *Seat {
	return (&Seat{}).Take(m, l)
}

// Take makes a zero seat that of a member at the shard that a lane leads to.
func (s *Seat) Take(m *Member, l *Lane) *Seat {
	s.member, s.Lane = m, l
	return s
}

// PacedUntil is when the shard wants to see this participant again.
func (s *Seat) PacedUntil() int64 { return s.notBefore.Load() }

// Paced reports whether the participant is to keep away from the shard at this time.
func (s *Seat) Paced(now int64) bool { return now < s.notBefore.Load() }

// LookAgain looks at the shard if the participant has been paced for long, and lifts the pace if a
// quarter of the share is free. Else it would not notice that others gave permits back, or that the
// shard was cleared. To ask for permits would report the participant as refused.
func (s *Seat) LookAgain(now int64) {
	l, at := s.Lane, s.lookAt.Load()
	if !s.Paced(now) || now < at || !s.lookAt.CompareAndSwap(at, now+int64(lookPause(l.Terms.Load().Window))) {
		return
	}
	paced := s.notBefore.Load()
	go func() {
		r, err := l.Peek(context.Background(), l.env.CallTimeout)
		if err == nil && r.Free >= max(1, r.Share/4) && s.notBefore.CompareAndSwap(paced, 0) {
			l.Limit.Learned(l, News{HasRoom: true})
		}
	}()
}

// lookPause is how long a pace is believed without a look at the shard.
func lookPause(window time.Duration) time.Duration { return max(time.Second, window/16) }

// Shut reports whether the shard is known to have nothing for this participant.
func (s *Seat) Shut(now int64) bool { return s.Lane.Known.Shut(now) || s.Paced(now) }

// Open forgets why the shard was not to be asked.
func (s *Seat) Open() {
	s.Lane.Known.open()
	s.notBefore.Store(0)
}

// name tells the shard whose seat it is.
func (s *Seat) name() script.Caller {
	return script.Caller{ID: s.member.ID, Weight: s.member.Weight}
}

// Report is what the shard is told of this participant with the next call.
//
// A call that was denied had tried the shards of its order, and how its
// demand is divided among them is not known. Telling each of two shards the whole
// of it, and each of more 2/N, was found best by simulation.
func (s *Seat) Report(shards int64) script.Caller {
	unmet := s.member.Unmet.Load()
	news := max(0, unmet-s.reported.Swap(unmet)) // a call that the watchdog gave up may come late
	waiting := s.member.Wanted.Load()
	r := s.name()
	r.Unmet = min(min(news, script.MaxPermits)*min(1000, 2000/shards), fairness.MaxReport)
	r.Waiting = min((waiting+shards-1)/shards, fairness.MaxReport)
	return r
}

// learn takes in what the shard said of this participant, in reply to a call that was sent and
// answered at these times.
//
// The wait is counted from halfway between the two, about when the shard spoke. Counted from when
// the call was sent, every other participant that comes back as soon as it may would come a little
// too early, in vain.
//
// While the share is on its way from or to other shards, or where permits come back early, the wait
// is no longer than what is believed of a shard that is empty: there may be more long before.
func (s *Seat) learn(sent, received int64, r *script.TakeReply, i int) {
	if s.notBefore.Load() != 0 {
		s.notBefore.Store(0)
	}
	if !r.Contended {
		return
	}
	if wait := r.Callers[i]; wait > 0 {
		if r.Share != r.Target || r.Early {
			wait = min(wait, s.Lane.Known.ShutCap(s.Lane.Terms.Load().Window))
		}
		s.notBefore.Store(sent + (received-sent)/2 + int64(wait))
		s.lookAt.Store(received + int64(lookPause(s.Lane.Terms.Load().Window)))
	}
}

// At is the seat of the same participant at another shard, of which nothing is known.
func (s *Seat) At(l *Lane) *Seat { return NewSeat(s.member, l) }

// ID is the participant's, as shards are told it.
func (s *Seat) ID() string { return s.member.ID }
