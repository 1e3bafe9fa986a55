package dispatch

import (
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// Denied is that a shard has nothing to give, as a process remembers it without the lane.
type Denied struct {
	until   int64 // that it is believed
	FreeAt  int64 // when a permit comes back
	ResetAt int64 // when the shard is unused again
	told    int64 // eight times what its share is to be, and why it refuses: a key has no room to spare
}

// Denied returns what is to be remembered of a shard that is known to have nothing to give. ok is
// false if it has something, or lost its memory.
func (l *Lane) Denied(now int64) (d Denied, ok bool) {
	d = Denied{l.Known.shutUntil.Load(), l.Known.FreeAt.Load(), l.Known.ResetAt.Load(),
		8*l.Known.Target.Load() + int64(l.Known.Why())}
	return d, now < d.until && !l.Known.Closed(now)
}

// Believe has a lane that has heard nothing of its shard know what was remembered without it.
func (l *Lane) Believe(d *Denied) {
	k := &l.Known
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sentAt.Load() != 0 {
		return
	}
	k.sentAt.Store(1) // before every call
	k.shutUntil.Store(d.until)
	k.FreeAt.Store(d.FreeAt)
	k.ResetAt.Store(d.ResetAt)
	k.Target.Store(d.Target())
	k.why.Store(int32(d.Why()))
}

// Target returns what the share of the shard is to be.
func (d *Denied) Target() int64 { return d.told / 8 }

// Why returns why it refuses.
func (d *Denied) Why() telemetry.Reason { return telemetry.Reason(d.told % 8) }

// Over reports whether it is believed no more.
func (d *Denied) Over(now int64) bool { return now >= d.until }

// Place is what the lanes to the keys of a family that lie at one place have together.
type Place struct {
	node  *node.Node
	way   *Way
	terms *Terms
}

// Place returns where the lane leads to.
func (l *Lane) Place() Place { return Place{l.Node, l.Way, l.Terms.Load()} }

// Usable reports whether calls for permits may be made there now: its node is in, and believed to
// answer.
func (p Place) Usable() bool {
	return (p.terms.Fence == nil || !p.terms.Fence.Bars(p.way.Home, p.way.Life)) && p.node.Reachable(p.way.Slot)
}
