package call

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/local"
)

// Member is what one participant of this process has to do with one limit: its
// line of waiters, its leases, and its account at every shard.
type Member struct {
	Target  *Target
	name    string // of the participant
	invalid error  // why it cannot be used
	last    atomic.Pointer[view]
	Leases  leases
	Waiting atomic.Pointer[Line]         // nil until somebody waits
	engine  atomic.Pointer[local.Engine] // of a limit of Scope PerParticipant; nil until it is asked

	mu                   sync.Mutex
	Accounts             []*dispatch.Account // at every shard
	dispatch.Participant                     // what shards are told of it: denials write there, and nothing above
	first                struct {            // in one piece with the member
		view     view
		account  dispatch.Account
		accounts [1]*dispatch.Account
	}
}

// NewMember returns the member of a limit that stands for a participant.
func NewMember(c *Target, who limit.Participant) *Member {
	m := &Member{}
	m.is(who, c)
	return m
}

// is makes a zero member that of a participant.
func (m *Member) is(who limit.Participant, c *Target) {
	who = who.Identified()
	m.Target, m.name, m.invalid = c, who.Name, who.Invalid
	m.ID, m.Weight = who.ID, who.Weight
	m.Leases.member = m
}

// view is a limit as one of its participants sees it: the routes in force, with
// the participant's accounts.
type view struct {
	*limit.Routes
	member   *Member
	accounts []*dispatch.Account  // in the order of preference
	only     [1]*dispatch.Account // backs accounts, as a rule
}

// View returns the member's view of routes.
func (m *Member) View(r *limit.Routes) *view {
	if v := m.last.Load(); v != nil && v.Routes == r {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v := &m.first.view
	if v.member != nil {
		v = &view{}
	}
	v.Routes, v.member, v.accounts = r, m, v.only[:0]
	m.Accounts = slices.DeleteFunc(m.Accounts, func(acc *dispatch.Account) bool { return acc.Shard.Gone.Load() })
	for _, sh := range r.Order {
		v.accounts = append(v.accounts, m.account(sh))
	}
	m.last.Store(v)
	return v
}

// place returns the place of an account's shard in the order of preference. A call that goes on
// after the layout has changed may have taken its account from an earlier view of the same routes.
func (v *view) place(acc *dispatch.Account) int {
	return slices.IndexFunc(v.accounts, func(o *dispatch.Account) bool { return o.Shard == acc.Shard })
}

// account returns the member's account at a shard. m.mu is held.
func (m *Member) account(sh *dispatch.Shard) *dispatch.Account {
	for _, acc := range m.Accounts {
		if acc.Shard == sh {
			return acc
		}
	}
	acc := &m.first.account
	if m.Accounts == nil {
		m.Accounts = m.first.accounts[:0]
	} else {
		acc = &dispatch.Account{}
	}
	m.Accounts = append(m.Accounts, acc.Init(&m.Participant, sh))
	return acc
}

// ForgetDenials forgets that nothing is free, so that the next call asks Redis.
func (m *Member) ForgetDenials(r *limit.Routes) {
	m.Target.ahead.Store(nil)
	if r != nil {
		for _, acc := range m.View(r).accounts {
			acc.Open()
		}
	}
}
