package script

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/columns"
)

const (
	// MaxGranted is the most grants of which one reminder can tell.
	MaxGranted = 64
	// remindPart bounds how late a grant is dated of which a shard is reminded: a window divided by
	// this.
	remindPart = 32
)

// Granted is what a process was granted by a shard, as far as it may be in use.
type Granted struct {
	// Under is the Closing that replies told when the permits were granted: they are of a state
	// that was lost if the shard's is another one now. 0 to less than maxTime.
	Under int64
	// Age is how long ago the last of them could be used; below 0 for what is reserved: until then.
	// All leave the window together, with the last.
	Age     time.Duration
	Permits int64 // 1 to [MaxPermits]
}

// RemindRequest tells a shard what a process was granted there, in case that it lost its memory.
type RemindRequest struct {
	// Known is the Closing of the loss after which the process has reminded the shard before: that
	// is not counted again. 0: none.
	Known int64
	// Grants are ordered by Age, the greatest first: at most [MaxGranted]. Bucket algorithms do not
	// look at them.
	Grants []Granted
	// Full is for bucket algorithms: until everything is free, as the last reply's Reset told, at
	// least 0.
	Full time.Duration
	// Share and Under are that reply's Share and Closing, and Window is that of its call: Full
	// counts only for a state of the same rate that lost its memory since. Share is at most
	// [MaxPermits].
	Share, Under int64
	Window       time.Duration
}

// RemindReply tells what a shard made of a reminder.
type RemindReply struct {
	Status Status // OK or Absent
	// Closing tells one loss of memory from another: when the shard was to open again after it, in
	// microseconds of its own time; of a shard that its server may have lost before, although
	// nobody could tell: when it was created. 0: it lost nothing since it was created or cleared.
	Closing int64
	Entered int64 // permits that count as used because of this call
}

// Remind tells a shard that lost its memory what it granted before: that is in use again, dated
// when it was granted or up to a thirty-second of the window later, never earlier. Where that is
// more than the share, the share follows it down. A shard that has lost nothing, or that the caller
// reminded of this loss before, changes nothing; neither does one without state. It is sent at most
// once. After a lost reply it may be sent again: what is counted twice leaves the window as the
// rest does.
func (e *Endpoint) Remind(ctx context.Context, s ShardRef, r RemindRequest) (RemindReply, error) {
	if err := r.check(); err != nil {
		return RemindReply{}, err
	}
	reply, err := e.run(ctx, s.program(remindProgram), s.keys(), []string{r.text()})
	if err != nil {
		return RemindReply{}, err
	}
	return parseRemind(reply)
}

func (r RemindRequest) check() error {
	if len(r.Grants) > MaxGranted || !closing(r.Known) || r.Full < 0 || !closing(r.Under) || r.Share < 0 ||
		r.Share > MaxPermits || r.Window < 0 || r.Window > MaxWindow {
		return invalid("a reminder of %d grants, known %d, full in %v at %d in %v, under %d",
			len(r.Grants), r.Known, r.Full, r.Share, r.Window, r.Under)
	}
	for i, g := range r.Grants {
		if g.Permits < 1 || g.Permits > MaxPermits || !closing(g.Under) || i > 0 && g.Age > r.Grants[i-1].Age {
			return invalid("a reminder of %+v", g)
		}
	}
	return nil
}

// closing reports whether there can be such a Closing.
func closing(n int64) bool { return n >= 0 && n < maxTime }

// text is the reminder as the scripts want it. Ages are rounded down: so nothing is dated early.
func (r RemindRequest) text() string {
	text := columns.Reminder.Append(nil, 0, r.Known, microseconds(r.Full), r.Share, microseconds(r.Window), r.Under)
	for _, g := range r.Grants {
		text = columns.Granted.Append(text, 0, g.Under, g.age(), g.Permits)
	}
	return string(text)
}

// age is Age in whole microseconds, rounded down.
func (g Granted) age() int64 { return floorDiv(int64(g.Age), int64(time.Microsecond)) }

// microseconds rounds up.
func microseconds(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// forgotten is permits that a shard is reminded of, by the time of the shard.
type forgotten struct{ date, permits int64 }

// dated returns what was granted before a loss, and may be in use: see remind.lua.
func (r RemindRequest) dated(now, closedUntil, window int64) (grants []forgotten) {
	for _, g := range r.Grants {
		date := now - g.age()
		if g.Under != closedUntil && date > now-window {
			grants = append(grants, forgotten{date, g.Permits})
		}
	}
	return grants
}

// filled returns until when a bucket is to be full, us from now, as far as it may have forgotten
// that; 0 if it has not.
func (r RemindRequest) filled(f *frame) int64 {
	if r.Share != f.share || microseconds(r.Window) != f.window || r.Under == f.closedUntil {
		return 0
	}
	return microseconds(r.Full)
}

// forgot reports whether the shard lost its memory since, or before the caller reminded it.
func (r RemindRequest) forgot(closedUntil int64) bool {
	return closedUntil > 0 && closedUntil != r.Known
}

func parseRemind(reply []rueidis.RedisMessage) (RemindReply, error) {
	p := &programs[remindProgram]
	var n [3]int64
	if len(reply) != len(n) {
		return RemindReply{}, malformed(p, "wrong length")
	}
	if err := integers(p, reply, n[:]); err != nil {
		return RemindReply{}, err
	}
	if !natural(n[:]) || n[0] > int64(OK) {
		return RemindReply{}, malformed(p, "out of range")
	}
	return RemindReply{Status: Status(n[0]), Closing: n[1], Entered: n[2]}, nil
}
