package dispatch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/script"
)

// Member is a participant of this process, as shards are told of it.
type Participant struct {
	ID     string
	Weight int64 // in thousandths

	// Unmet counts the permits of calls that were finally denied. Every
	// shard is told of those since it was last told, so that it knows who wants more than it gets.
	Unmet  atomic.Int64
	Wanted atomic.Int64 // permits that its line still wanted when it last could not be served
}

// Account is what this process knows of a participant at one shard, as far as fairness goes.
type Account struct {
	member *Participant
	Shard  *Shard

	// notBefore is when the shard wants to see this participant again, on the
	// process' clock: until then its part is used up, though permits may be free.
	notBefore atomic.Int64
	lookAt    atomic.Int64 // when the shard is looked at although the participant is paced
	reported  atomic.Int64 // of Participant.Unmet
}

// NewAccount returns the account of a member at a shard.
func NewAccount(m *Participant, sh *Shard) *Account {
	return (&Account{}).Init(m, sh)
}

// Init makes a zero Account that of a member at a shard.
func (acc *Account) Init(m *Participant, sh *Shard) *Account {
	acc.member, acc.Shard = m, sh
	return acc
}

// PacedUntil returns when the shard wants to see this participant again.
func (acc *Account) PacedUntil() int64 { return acc.notBefore.Load() }

// Paced reports whether the participant is to keep away from the shard at this time.
func (acc *Account) Paced(now int64) bool { return now < acc.notBefore.Load() }

// LookAgain looks at the shard if the participant has been paced for long, and lifts the pace if a
// quarter of the share is free. Else it would not notice that others gave permits back, or that the
// shard was cleared. To ask for permits would report the participant as refused.
func (acc *Account) LookAgain(now int64) {
	sh, at := acc.Shard, acc.lookAt.Load()
	if !acc.Paced(now) || now < at || !acc.lookAt.CompareAndSwap(at, now+int64(lookPause(sh.Terms.Load().Window))) {
		return
	}
	paced := acc.notBefore.Load()
	go func() {
		r, err := sh.Peek(context.Background(), sh.env.CallTimeout)
		if err == nil && r.Free >= max(1, r.Share/4) && acc.notBefore.CompareAndSwap(paced, 0) {
			sh.Limit.Learned(sh, News{HasRoom: true})
		}
	}()
}

// lookPause returns how long a pace is believed without a look at the shard.
func lookPause(window time.Duration) time.Duration { return max(time.Second, window/16) }

// Shut reports whether the shard is known to have nothing for this participant.
func (acc *Account) Shut(now int64) bool { return acc.Shard.Known.Shut(now) || acc.Paced(now) }

// Open forgets why the shard was not to be asked.
func (acc *Account) Open() {
	acc.Shard.Known.open()
	acc.notBefore.Store(0)
}

// name tells the shard whose account it is.
func (acc *Account) name() script.Caller {
	return script.Caller{ID: acc.member.ID, Weight: acc.member.Weight}
}

// Report returns what the shard is told of this participant with the next call.
//
// A call that was denied had tried the shards of its order, and how its
// demand is divided among them is not known. Telling each of two shards the whole
// of it, and each of more 2/N, was found best by simulation.
func (acc *Account) Report(shards int64) script.Caller {
	unmet := acc.member.Unmet.Load()
	news := max(0, unmet-acc.reported.Swap(unmet)) // a call that the watchdog gave up may come late
	waiting := acc.member.Wanted.Load()
	r := acc.name()
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
func (acc *Account) learn(sent, received int64, r *script.TakeReply, i int) {
	if acc.notBefore.Load() != 0 {
		acc.notBefore.Store(0)
	}
	if !r.Contended {
		return
	}
	if wait := r.Callers[i]; wait > 0 {
		if r.Share != r.Target || r.Early {
			wait = min(wait, acc.Shard.Known.ShutCap(acc.Shard.Terms.Load().Window))
		}
		acc.notBefore.Store(sent + (received-sent)/2 + int64(wait))
		acc.lookAt.Store(received + int64(lookPause(acc.Shard.Terms.Load().Window)))
	}
}

// At returns an account of the same participant at another shard, of which nothing is known.
func (acc *Account) At(sh *Shard) *Account { return NewAccount(acc.member, sh) }

// ID returns the participant's, as shards are told it.
func (acc *Account) ID() string { return acc.member.ID }
