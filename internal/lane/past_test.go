package lane

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/script"
)

// holding is what a past says that was in use after an instant.
func (p *past) holding(after int64) (n int64) {
	for _, c := range p.cells {
		if c.until > after {
			n += c.permits
		}
	}
	return n
}

// TestAPastForgetsNothingThatIsInUse: whatever was granted, booked and refunded, at no instant does
// the past hold less than is in use from then on, nor anything for much longer; and it stays small.
func TestAPastForgetsNothingThatIsInUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window = time.Hour
		type grant struct{ at, due, permits int64 }
		var p past
		var all []grant
		now := int64(1)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += rapid.SampledFrom([]int64{0, 1, int64(time.Second), int64(window / 40), int64(window / 3)}).Draw(t,
				"later")
			switch rapid.IntRange(0, 5).Draw(t, "act") {
			case 0:
				if len(all) > 0 {
					g := &all[rapid.IntRange(0, len(all)-1).Draw(t, "refunded")]
					n := rapid.Int64Range(0, g.permits).Draw(t, "back")
					if g.due <= now-int64(window) {
						n = 0 // nothing comes back of what has left the window
					}
					g.permits -= n
					p.refunded(g.at, n, now, 0)
				}
			case 1:
				due := now + rapid.Int64Range(0, int64(2*window)).Draw(t, "ahead")
				all = append(all, grant{now, due, 3})
				p.add(span{now, due}, 0, now, 3, window)
			default:
				all = append(all, grant{now, now, 1})
				p.add(span{now, now}, 0, now, 1, window)
			}
			p.holds(now, &Terms{Window: window})
			if len(p.cells) > script.MaxGranted {
				t.Fatalf("%d cells", len(p.cells))
			}
			for _, at := range all {
				used := int64(0)
				for _, g := range all {
					if g.due > max(at.due-1, now-int64(window)) {
						used += g.permits
					}
				}
				if held := p.holding(at.due - 1); held < used {
					t.Fatalf("from %d on %d are in use, the past holds %d: %+v", at.due, used, held, p.cells)
				}
			}
		}
		if !p.holds(now, &Terms{Window: window}) == (p.sum != 0) {
			t.Fatalf("%d permits in %+v", p.sum, p.cells)
		}
		if !p.claim() || p.claim() {
			t.Fatal("two reminders at once")
		}
		p.release()
		r, ok := p.begin(now, &Terms{Window: window})
		if ok != (p.sum != 0) {
			t.Fatalf("%d permits in use, reminded: %v", p.sum, ok)
		}
		for i, g := range r.Grants {
			if i > 0 && g.Age > r.Grants[i-1].Age || g.Permits < 0 {
				t.Fatalf("%+v", r.Grants)
			}
		}
	})
}

// TestAPastFollowsWhatTheShardSays: who hears that less is in use than it noted knows that the
// shard was cleared. It does not where a reply tells of what was before, or where the shard forgot.
func TestAPastFollowsWhatTheShardSays(t *testing.T) {
	const hour = time.Hour
	noted := func() *past {
		var p past
		p.add(span{100, 100}, 0, 100, 5, hour)
		p.add(span{int64(hour / 2), int64(hour / 2)}, 0, int64(hour/2), 2, hour)
		return &p
	}
	p := noted()
	if p.used(int64(hour/2)+1, int64(hour/2)+1, math.MaxInt64, 3); p.sum != 3 || p.holding(100) != 2 {
		t.Errorf("%d permits in %+v", p.sum, p.cells)
	}
	p = noted()
	if p.used(int64(hour/2)-1, int64(hour/2)-1, math.MaxInt64, 0); p.sum != 7 {
		t.Errorf("a reply from before took %d permits away", 7-p.sum)
	}
	p = noted()
	p.doubts()
	if p.used(int64(hour/2)+1, int64(hour/2)+1, math.MaxInt64, 0); p.sum != 7 {
		t.Errorf("a shard that forgot took %d permits away", 7-p.sum)
	}
	p.end(int64(hour/2)+3, int64(hour/2)+3, script.RemindReply{Status: script.OK, Closing: 9}, nil)
	p.reminded(int64(hour/2) + 3)
	if p.used(int64(hour/2)+2, int64(hour/2)+2, math.MaxInt64, 0); p.sum != 7 {
		t.Errorf("a reply from before the reminder took %d permits away", 7-p.sum)
	}
	if p.used(int64(hour/2)+4, int64(hour/2)+4, math.MaxInt64, 0); p.sum != 0 {
		t.Errorf("%d permits are left", p.sum)
	}
}

// TestALossIsNoticedOnce: each time that the shard is shut anew, or nothing was heard of it for too
// long, and not with every denial meanwhile.
func TestALossIsNoticedOnce(t *testing.T) {
	const window = time.Hour
	listens, terms := script.Listening(window), &Terms{Window: window}
	var p past
	if p.meets(answer{1, 1, 1, listens, 0}, terms) {
		t.Error("there is nothing to remind of")
	}
	p.add(span{1, 1}, 0, 1, 5, window)
	at := int64(time.Second)
	for i, c := range []struct {
		later, shut time.Duration
		closing     int64
		lost        bool
	}{
		{time.Second, 0, 0, false},
		{time.Second, listens, 0, true},
		{time.Second, listens - time.Second, 0, false},
		{10 * time.Second, listens - 11*time.Second + sameLoss, 0, false}, // the reply came late
		{time.Second, listens - 11*time.Second, 0, true},                  // shut anew, a second after
		{2 * time.Second, listens - 3*time.Second, 0, true},               // and again
		{time.Second, 50 * time.Minute, 0, true},                          // by who shuts it for longer
		{time.Second, listens - 5*time.Second, 0, true},                   // and by who does not
		{listens/2 + time.Second, 0, 0, false},
		{listens, 0, 0, true},
		{time.Second, 0, 0, false},
		{time.Second, 0, 77, true}, // who created it anew did not know of the loss
		{time.Second, 0, 77, false},
		{time.Second, 0, 78, true},
	} {
		at += int64(c.later)
		if lost := p.meets(answer{at, at, at, c.shut, c.closing}, terms); lost != c.lost {
			t.Errorf("%d: noticed: %v", i, lost)
		}
	}
}

// TestABucketIsFullNoSoonerThanAnyReplySaid: replies that overlap tell of what was before.
func TestABucketIsFullNoSoonerThanAnyReplySaid(t *testing.T) {
	var p past
	full := func(at int64) refill { return refill{at: at, under: 9, epoch: 3, window: int64(time.Hour), share: 7} }
	if !p.fills(10, 20, full(500)) || p.fills(15, 25, full(400)) || p.full != full(500) {
		t.Errorf("%+v", p.full)
	}
	if p.fills(30, 40, full(300)); p.full != full(300) {
		t.Errorf("after a refund: %+v", p.full)
	}
	if p.refunded(30, 1, 35, 100); p.full != full(300) {
		t.Errorf("a reply that may have told of a refund is moved by it: %+v", p.full)
	}
	if p.refunded(30, 1, 45, 100); p.full.at != 200 {
		t.Errorf("after a refund of which no reply has told: %+v", p.full)
	}
	terms := &Terms{Window: time.Hour, Epoch: 4, Share: 7}
	if r, ok := p.begin(100, terms); !ok || r.Full != 100 || r.Share != 7 || r.Window != time.Hour || r.Under != 9 {
		t.Errorf("%+v", r)
	}
	p.doubts()
	later := full(150)
	later.epoch++
	if p.fills(50, 60, later); p.full.at != 200 {
		t.Errorf("what a shard forgot that has the same rate under another layout: %+v", p.full)
	}
	if terms.Share++; p.holds(100, terms) {
		t.Error("what was to be at another rate is remembered")
	}
}

// TestWhatWasGrantedSinceALossIsNoneOfIt: it is told under what it was granted. Who had nothing
// before has nothing to tell.
func TestWhatWasGrantedSinceALossIsNoneOfIt(t *testing.T) {
	terms := &Terms{Window: time.Hour}
	var p past
	if p.meets(answer{sent: 1, received: 2, closing: 5}, terms) || p.known != 5 {
		t.Errorf("there was nothing before: %+v", &p)
	}
	p.add(span{1, 2}, 5, 2, 1, time.Hour)
	if !p.meets(answer{sent: 3, received: 4, closing: 8}, terms) || p.known != 5 {
		t.Errorf("a loss: %+v", &p)
	}
	p.add(span{3, 4}, 8, 4, 2, time.Hour)
	r, ok := p.begin(5, terms)
	if !ok || r.Known != 5 || len(r.Grants) != 2 || r.Grants[0].Under != 5 || r.Grants[1].Under != 8 {
		t.Errorf("%+v", r)
	}
	if !p.forgotten(1) || p.forgotten(3) {
		t.Error("what was granted before the loss is not told from what was granted since")
	}
}

// TestAShardThatIsAbsentAlarmsOnce: whether that is a loss, the others tell. It is asked half as
// often as one that may have lost its memory.
func TestAShardThatIsAbsentAlarmsOnce(t *testing.T) {
	var p past
	p.add(span{1, 1}, 0, 1, 1, time.Hour)
	for i, lost := range []bool{true, false, false} {
		at := int64(i+1) * 100
		if p.end(at, at, script.RemindReply{}, nil) != lost {
			t.Errorf("the look at %d is an alarm: %v", at, !lost)
		}
		p.reminded(at)
		if _, ok := p.witnesses(); ok || p.due(at+100, 100) || !p.due(at+200, 100) {
			t.Errorf("after %d it tells of its server, or is asked too often or seldom", at)
		}
	}
	if p.meets(answer{400, 400, 400, 0, 0}, &Terms{Window: time.Hour}); !p.due(401, 100) {
		t.Error("who has created it was not told what was granted before")
	}
	if p.end(500, 500, script.RemindReply{Status: script.OK}, nil) || p.due(10_000, 100) {
		t.Error("one that was reminded is asked again")
	}
}

// TestALaneThatFollowsRemembers: what was noted lasts as long as before, although the lane has no
// layout yet. Where nothing is reminded any more, it is forgotten.
func TestALaneThatFollowsRemembers(t *testing.T) {
	e := &Env{Closed: new(atomic.Bool)}
	old := New(e, Way{}, &Terms{Epoch: 3, Window: time.Hour, Reminded: true, Remembered: true})
	old.remembered().add(span{1, 1}, 0, 1, 5, time.Hour)
	l := New(e, Way{}, &Terms{Shards: 1})
	if pace := l.pace(); pace != leastPace {
		t.Errorf("without a layout it is looked after each %v", pace)
	}
	l.Follows(old)
	e.vigil.timer.Stop()
	if now := int64(time.Hour) - 1; !l.guarded(now) || l.pace() != script.Listening(time.Hour)/looksPerListening {
		t.Errorf("what is in use is forgotten: %+v", l.Terms.Load())
	}
	l.Terms.Store(&Terms{Epoch: 4, Window: time.Hour})
	if l.guarded(2) || l.past.Load().sum != 0 {
		t.Error("what is not reminded any more is looked after")
	}
}

// A refund takes nothing off twice: a reply that came since it was sent may have told of it before
// its own reply did.
func TestARefundThatWasToldBeforeItsReply(t *testing.T) {
	const window = time.Hour
	var p past
	p.add(span{10, 10}, 0, 10, 7, window)
	p.used(25, 30, math.MaxInt64, 5) // the refund of two was sent at 20, and made before this call
	if p.refunded(10, 2, 20, 0); p.sum != 5 {
		t.Errorf("%d permits are left after a refund that was told", p.sum)
	}
	if p.refunded(10, 2, 40, 0); p.sum != 3 {
		t.Errorf("%d permits are left after another one", p.sum)
	}
}
