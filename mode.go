package shardlimit

import (
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// Mode says what becomes of calls on a limit. SetLimit changes it for every process while the limit
// is in use. A process hears of it with its next reply of a shard, at the latest after 15 seconds
// of use, for a Family after 2. Until then it goes by the mode before.
type Mode uint8

// The modes.
const (
	// Enforced grants what the limit has, and denies the rest.
	Enforced Mode = iota
	// Shadow counts as Enforced does, but refuses and delays nobody. A call that Enforced would
	// have denied or delayed is granted all that it asked for, and its Decision is Shadowed. So it
	// is where Enforced would have returned ErrExceedsLimit, or ErrUnavailable; the Decision is
	// then Degraded, too. Wait and Reserve do not wait.
	Shadow
	// Off grants every call all that it asks for, and counts nothing. No shard is asked, so nodes
	// may be away. After Off what was granted meanwhile does not count: a window that overlaps it
	// may hold the limit beside that.
	Off
	// Closed denies every call, and no shard is asked. Permits that were reserved stay valid. When
	// it will be opened is unknown, so RetryAfter is the 15 seconds after which every process has
	// heard of it. Wait waits until it is opened; Reserve returns ErrLimitClosed. A limit that came
	// Closed by Family.LimiterWith stays so for that Limiter.
	Closed
	modes
)

// heardAfter is how long it takes at most until a process that uses a limit has heard of a change.
const heardAfter = 15 * time.Second

var modeNames = [modes]string{"enforced", "shadow", "off", "closed"}

// String returns the name under which the mode is stored and reported.
func (m Mode) String() string {
	if m < modes {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// stored is the name of the mode in a record: nothing for Enforced, as before there were others.
func (m Mode) stored() string {
	if m == Enforced {
		return ""
	}
	return m.String()
}

func modeNamed(name string) (Mode, error) {
	for m := range modes {
		if name == m.stored() {
			return m, nil
		}
	}
	return modes, fmt.Errorf("%w: mode %q", register.ErrUnreadable, name)
}

// lenient reports whether no call is refused.
func (m Mode) lenient() bool { return m == Shadow || m == Off }

// asksNobody reports whether calls are decided without a shard.
func (m Mode) asksNobody() bool { return m == Off || m == Closed }

// mode is that of the routes, or the one declared while there are none.
func (c *core) mode(r *routes) Mode {
	if r == nil {
		return c.declaration().Mode
	}
	return r.limit.Mode
}

// byMode decides a call where its limit's mode does so without asking anybody.
func (m *member) byMode(r *routes, n int64, upTo bool, d *Decision) (decided bool) {
	c := m.core
	mode := c.mode(r)
	if mode == Enforced || mode == Shadow && (upTo || n <= c.limitOf(r).most()) {
		return false
	}
	c.Refresh() // no shard tells of a change
	permits := c.limitOf(r).Permits
	*d = Decision{Limit: permits, source: telemetry.Local, core: c, mode: mode}
	switch mode {
	case Closed:
		d.RetryAfter = heardAfter
	case Off:
		d.Remaining = permits
		fallthrough
	default:
		d.Allowed, d.Granted, d.Shadowed = true, n, mode == Shadow
	}
	return true
}

// shadowed makes of a call that ended so what a limit in Shadow mode answers.
func (c *core) shadowed(d *Decision, n int64, err error) error {
	if c.mode(c.routes.Load()) != Shadow {
		return err
	}
	if err == nil && d.Granted == n && d.Delay == 0 {
		d.mode = Shadow
		return nil
	}
	away := errors.Is(err, ErrUnavailable)
	if err != nil && !away && !errors.Is(err, ErrExceedsLimit) {
		return err
	}
	if err != nil {
		*d = Decision{Limit: c.limitNow().Permits, Degraded: away, source: telemetry.Local, core: c}
	}
	d.mode, d.Allowed, d.Granted, d.Shadowed, d.Delay, d.RetryAfter = Shadow, true, n, true, 0, 0
	return nil
}
