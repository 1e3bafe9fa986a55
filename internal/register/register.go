// Package register keeps the layout of a limit: which shards it has, where they are, and the epoch
// that numbers this arrangement. A register reads and writes the record of the layout at its places
// (place.go), repairs what was lost there (exchange.go, anchor.go), says how long what was read may
// be relied on (belief.go), changes it (change.go) and moves capacity between shards (driver.go).
// What else a process knows of the limit is behind the interface Limit.
package register

import (
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/fence"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/shard"
)

// How much longer than two windows things are kept. A shard that gave its capacity away remembers
// that for StateKeep. That is more than confirmFor: whoever is behind still finds the memory of it,
// or must confirm its layout first.
const (
	StateKeep      = time.Minute
	recordKeep     = 7 * 24 * time.Hour // and two windows
	participantTTL = time.Minute
	leastPatience  = 2 * time.Second
	agreeRounds    = 8 // how often it is read again when its places do not agree
	// So long a record that is older than what shards obey is left to a process that knows better:
	// one that is in use reads the record within confirmLimitEvery.
	outdatedFor = confirmLimitEvery + leastPatience + 3*time.Second
	// so long after a limit was declared first its places must all be reached, and are waited for
	newFor = time.Second
)

// Register is the record of a limit's layout in Redis: one anchor, where it is
// declared and changed by compare-and-set, and two copies that tell it while
// the anchor is away. Decisions do not need it.
//
// The record names its anchor, so processes that list different nodes agree on it. To move it, a
// layout that names the new place is written at the old one, and stays there to tell the way. A
// layout is used only after every place that this process could reach had taken it or already led
// to the same anchor: so two processes that began at different places notice before they use what
// they wrote. While a limit is new, a place that cannot be reached is waited for.
//
// It is safe for concurrent use.
type Register struct {
	env *Env
	Subject
	places places

	belief  atomic.Pointer[belief] // what the anchor held when it was last asked; nil: it never was
	askedAt atomic.Int64           // when it last answered; 0 never
	// when the limit could not be looked up, as time elapsed, if that was the last try; else 0
	failedAt atomic.Int64
	bornAt   atomic.Int64 // since when the limit is known to exist, on the client's clock; 0: it is not
	highest  atomic.Int64 // highest epoch that a shard has shown
	clock    atomic.Int64 // what the anchor's clock said when it was last read, in microseconds
	// a family's layout as the anchor has it, with since when it is in force; nil: not yet known
	tended atomic.Pointer[shard.Layout]
	// since when shards are known to obey a later layout than the record's; 0: they do not; only of
	// who holds the token
	outdated     int64
	participants atomic.Int64
	syncing      atomic.Bool
	driving      atomic.Bool
	informing    atomic.Bool   // a denied call waits for the record
	driven       atomic.Int64  // the epoch of the layout that the driver has
	leads        atomic.Int64  // the epoch of the layout that this process made last
	stirred      atomic.Bool   // permits came back to shards that give capacity up
	poked        chan struct{} // wakes the driver
	proposing    chan struct{} // holds one token: one change at a time
	token        chan struct{} // holds one token: one exchange at a time
	deleted      atomic.Bool   // never of a family
	// the layout is being made to follow the nodes
	reconsidering atomic.Bool
	// why the limit could not be looked up when that was last tried; nil: it could
	failure atomic.Pointer[error]
	// whether a place that cannot be reached is waited for; only of who holds the token
	strict bool
	// the epoch that each place had when it was read; 0: none, or it could not be read; only of
	// who holds the token
	there map[shard.Location]int64
}

// Env is what the registers of a process share.
type Env struct {
	Nodes    *node.Fleet // with its clock, log and key prefix
	Process  string      // as records count it: no other has the same
	Closed   *atomic.Bool
	Fences   *fence.Fences // by which layouts hold
	Takeover bool          // whether limits that this process declares are under one
}

// Patience is how long one exchange may take that declares, changes, resets or deletes a limit:
// these are rare, and may have to connect first.
func (e *Env) Patience() time.Duration { return max(leastPatience, e.Nodes.CallTimeout) }

// New returns the register of a limit that was not looked up yet. It does no I/O.
func New(env *Env, s Subject) *Register {
	r := &Register{env: env, Subject: s, proposing: make(chan struct{}, 1), token: make(chan struct{}, 1),
		poked: make(chan struct{}, 1)}
	r.places = places{env: env, id: s.ID, metrics: s.Metrics}
	r.participants.Store(1)
	return r
}

// The clock of the process.
func (r *Register) now() int64     { return r.env.Nodes.Clock.Now() }
func (r *Register) elapsed() int64 { return r.env.Nodes.Clock.Elapsed() }

func (r *Register) warn(text string, attributes ...any) {
	r.env.Nodes.Log.Warn(text, append([]any{"limiter", r.Name}, attributes...)...)
}

// Participants is how many processes use the limit, as last heard; at least 1.
func (r *Register) Participants() int64 { return r.participants.Load() }

// Count notes how many processes use the limit.
func (r *Register) Count(participants int64) { r.participants.Store(max(1, participants)) }

// Highest is the highest epoch that a shard has shown; 0: none.
func (r *Register) Highest() int64 { return r.highest.Load() }
