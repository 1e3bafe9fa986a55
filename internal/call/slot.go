package call

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/script"
)

// slotKey is the one key of the family that slots are.
const slotKey = "slots"

// releaseAgain is for how long a release may be tried again. Its mark lives twice as long.
const releaseAgain = 30 * time.Second

// Slots returns the slots of that name: a key of a family, of which the process remembers what its
// lines have for as long as the client is open.
func (c *Client) Slots(ctx context.Context, name string, n int64, maxHold time.Duration) (*Limiter, error) {
	declared, err := c.Declare(ctx, Families, name, limit.Limit{Permits: n, Per: maxHold})
	if err != nil {
		return nil, err
	}
	f := declared.Of
	if of := f.Target.LimitNow(); of.Algorithm != limit.SlidingLog || of.Scope != limit.Global {
		return nil, fmt.Errorf("%w: family %q is no slots", limit.ErrInvalidLimit, name)
	}
	return made(&f.slots, func() *Limiter {
		l := f.Limiter(slotKey)
		l.Hold()
		return &l
	}), nil
}

// Slot is one permit that is given back when it is released.
type Slot struct {
	member *Member
	mu     sync.Mutex
	d      Decision
	asked  clock.Elapsed // no shard frees it before a window after that
	window time.Duration
	ended  int64 // when it was first released, or found lost; 0: it is held
	over   bool  // nothing is left to be done
}

// NewSlot returns the slot that a decision granted. The process remembers the key of slots: see
// Slots.
func NewSlot(l *Limiter, d Decision) *Slot {
	m := l.Hold()
	defer m.Target.Release()
	return &Slot{member: m, d: d, asked: d.asked, window: m.Target.LimitNow().Per}
}

// Until returns when the slot frees itself.
func (s *Slot) Until() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.member.Target
	c.Refresh()
	return time.Now().Add(time.Duration(s.until() - c.Process.Clock.Elapsed()))
}

// until returns when it frees itself: sooner than it was to if the window has become shorter, for
// the shard may have forgotten it then.
func (s *Slot) until() clock.Elapsed {
	s.window = min(s.window, s.member.Target.LimitNow().Per)
	return s.asked + clock.Elapsed(s.window)
}

// lost ends the slot.
func (s *Slot) lost() error {
	s.ended, s.over, s.window = s.member.Target.Process.Now(), true, 0
	return limit.ErrSlotLost
}

// Release frees the slot.
func (s *Slot) Release(ctx context.Context) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.member.Target
	now := c.Process.Now()
	switch {
	case s.over:
		return nil
	case c.Process.Closed.Load():
		return limit.ErrClosed
	case s.ended == 0:
		s.ended = now
	case now >= s.ended+int64(releaseAgain):
		return limit.ErrSlotLost
	}
	err = c.settle(ctx, &s.d, settlement{keep: min(c.LimitNow().Memory()+time.Second, 2*releaseAgain)})
	if errors.Is(err, limit.ErrSettled) {
		err = nil
	}
	s.over = err == nil
	return err
}

// Extend has the slot free itself a whole window from now on.
func (s *Slot) Extend(ctx context.Context) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.member.Target
	since := c.Process.Now()
	now := c.Process.Clock.ElapsedAt(since)
	if c.Process.Closed.Load() {
		return limit.ErrClosed
	}
	if s.ended != 0 || now >= s.until() {
		return limit.ErrSlotLost
	}
	ctx, cancel := context.WithTimeout(ctx, c.Process.Config.CallTimeout)
	defer cancel()
	r, _ := c.InUse(ctx)
	window := c.LimitOf(r).Per
	if s.d.rarely().engine != nil || len(s.d.parts()) == 0 {
		err = s.retake(ctx, r, since)
	} else {
		err = s.renew(ctx, s.d.partsIn(c)[0], r, since)
	}
	if err == nil {
		s.asked, s.window = now, window
	}
	return err
}

// retake asks for a slot in place of one that no shard counts, because an outage let it pass.
func (s *Slot) retake(ctx context.Context, r *limit.Routes, since int64) error {
	if s.d.rarely().engine != nil {
		s.d.returnHere(1) // else it might be in its own way
		s.d = Decision{}
	}
	var d Decision
	s.member.ForgetDenials(r)
	if err := s.member.AtOnce(ctx, r, 1, false, since, 0, &d); err != nil {
		return err
	}
	CourtesyOf(s.member.Target).Got(r, &d)
	if !d.Allowed {
		return s.lost()
	}
	s.d = d
	return nil
}

// renew charges a permit dated now, and then gives back the one that the slot has. So another one
// need not be free, and at each instant the log holds one for the slot.
func (s *Slot) renew(ctx context.Context, was dispatch.Part, r *limit.Routes, since int64) error {
	c := s.member.Target
	acc, err := follow(ctx, c, r, was.Account)
	if err != nil {
		return err
	}
	charged, err := acc.Settle(ctx, script.SettleRequest{Charge: 1, Owed: c.LimitOf(r).Owed()})
	if err != nil {
		return c.Failed(acc.Shard, err)
	}
	if charged.Granted == 0 {
		return s.lost()
	}
	var d Decision
	d.addPart(dispatch.Part{Account: acc, At: charged.At, N: 1}, c.OwnTicket())
	d.Target = c
	if charged.Target == 0 && r != nil && c.Record().Until(r.Layout.Epoch, c.Process.Clock.ElapsedAt(since)) == 0 {
		// It was left long ago, so what it has may be forgotten soon.
		c.HandBack(ctx, d, since, false)
		return c.Failed(acc.Shard, errMoved)
	}
	back, errs := settleAll(ctx, c, []dispatch.Settlement{
		{Account: was.Account, SettleRequest: script.SettleRequest{Back: 1, At: was.At}}})
	gone := back[0].Back == 0
	if errs[0] != nil {
		gone = c.Process.Clock.Elapsed() >= s.until()
	}
	if gone {
		c.HandBack(ctx, d, since, false) // somebody else may have it
		return s.lost()
	}
	s.d = d
	return nil
}

// follow returns the account at which a slot is extended that has another one: where its key is
// now. If that moved, the shard that it left is told first, for it to grant nothing more.
func follow(ctx context.Context, c *Target, r *limit.Routes, was *dispatch.Account) (*dispatch.Account, error) {
	if r == nil || len(r.Shards) != 1 || r.Shards[0] == was.Shard {
		return was, nil
	}
	if _, err := was.Shard.Propose(ctx, was.Shard.Terms.Load()); err != nil {
		return nil, c.Failed(was.Shard, err)
	}
	return was.At(r.Shards[0]), nil
}

var errMoved = errors.New("the slots are elsewhere, and this process has not heard where")
