package shardlimit

import (
	"context"

	"github.com/shardlimit/shardlimit/internal/call"
)

// Family is one limit for each of many keys: users, addresses, API keys. All
// keys share the declaration; each has its own permits. It is safe for
// concurrent use.
type Family struct {
	in     *call.Family
	client *Client
}

// Name returns the name the family was declared under.
func (f *Family) Name() string { return f.in.Target.Name }

// Limit returns the limit in force for each key, as far as this process has heard.
func (f *Family) Limit() Limit { return limitOf(f.in.Target.LimitNow()) }

// SetLimit changes the limit of every key whose calls bring none, as Limiter.SetLimit does for a
// limit. A process hears of it within 2 seconds of use, while the record can be read.
func (f *Family) SetLimit(ctx context.Context, limit Limit) error {
	return f.in.SetLimit(ctx, limit.in())
}

// Rebalance places the keys of the family over the nodes of this Client that do not drain, and
// moves the family's record if that is on a node that does. Every process follows, whichever nodes
// it lists. If the keys are placed so already, it does nothing. It fails as SetLimit does.
//
// A key that is to be elsewhere moves with the first call for it in each process: at once if it
// was idle for a window, else as what was used leaves the window. See docs/howto/change-nodes.md.
func (f *Family) Rebalance(ctx context.Context) error { return f.in.Rebalance(ctx) }

// Limiter returns the limiter of one key (1 to MaxName bytes). It does no I/O: a shard without
// state starts with the family's limit. A process keeps nothing of an idle key but what its next
// call must know, such as a denial, and that of 65,536 keys and up to a tenth more. Calls on an
// invalid key return ErrInvalidName.
func (f *Family) Limiter(key string) *Limiter { return &Limiter{f.in.Limiter(key), f.client} }

// LimiterWith returns the Limiter of a key whose limit the caller knows, from a database, a plan or
// a token: the limit comes with the calls. No record keeps it; only the shard of the key does. So a
// million keys may each have another one. Where the limits of two callers differ, that of the
// higher Revision is in force, of the same Revision the one that came last. Limiter brings the
// family's. The Limiter keeps its limit, so call LimiterWith for each request.
//
// The next call feels a higher limit. A lower one holds in every window that begins after the first
// call that brought it. What was used counts, whichever limit was in force. One call is granted no
// more than the limit that it brings. Decision.Limit is the one in force, as far as this limiter
// has heard. What a process decides by itself (FailLocal, PerParticipant) counts for each limit of
// a key apart. A Burst of 0 means Permits.
//
// Mode is not compared: calls go by the one they bring. So a key may be Off or Closed for one
// caller only, and one that waits for a Closed limit waits until its context ends.
//
// Algorithm, Scope and Per are the family's: leave them zero, or give the same. A Burst takes at
// most as long to fill as the longest that the family ever had. Calls on another limit return
// ErrInvalidLimit. A limiter that has another Per because the family's has changed since goes by
// the family's limit.
func (f *Family) LimiterWith(key string, limit Limit) *Limiter {
	return &Limiter{f.in.LimiterWith(key, limit.in()), f.client}
}
