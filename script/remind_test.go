package script

import (
	"testing"
	"time"
)

// lostShard is a shard of 100 permits an hour that lost its memory just now, with the time of its
// node.
func lostShard(t *testing.T, a Algorithm, floor int64) (twin Twin, now int64) {
	t.Helper()
	twin, now = NewTwin(a), 1_700_000_000_000_000
	now -= now % (3600 * second) // a fixed window begins
	p := terms(t, Terms{Epoch: 1, Target: 100, Floor: floor, Window: time.Hour, Algorithm: a, Reminded: true})
	reply := twin.Take(now, &TakeRequest{Proposal: p, Seen: true, Groups: []Group{{Size: 1, Count: 1}}})
	if reply.Status != Lost || reply.Granted != 0 || reply.Closed != Listening(time.Hour) || reply.Share != floor {
		t.Fatalf("%+v", reply)
	}
	return twin, now
}

// TestALossOfWhichTheShardWasReminded: what is told counts once for each loss, from the instant at
// which it was granted, and not at all where nothing was lost or the shard was cleared.
func TestALossOfWhichTheShardWasReminded(t *testing.T) {
	for _, a := range []Algorithm{AlgorithmSlidingLog, AlgorithmSlidingCounter} {
		t.Run(a.String(), func(t *testing.T) {
			twin, now := lostShard(t, a, 100)
			told := RemindRequest{Grants: []Granted{
				{Age: 2 * time.Hour, Permits: 5}, // has left the window
				{Age: 49 * time.Minute, Permits: 30},
				{Age: 20 * time.Minute, Permits: 40},
			}}
			first := twin.Remind(now, told)
			if first.Entered != 70 || first.Closing != now+int64(Listening(time.Hour)/time.Microsecond) {
				t.Fatalf("%+v", first)
			}
			told.Known = first.Closing
			if again := twin.Remind(now+1, told); again.Entered != 0 || again.Closing != first.Closing {
				t.Errorf("the same told again: %+v", again)
			}
			later := now + 60*second
			late := RemindRequest{Grants: []Granted{{Under: 7, Age: 2 * time.Minute, Permits: 10},
				{Under: first.Closing, Age: time.Second, Permits: 20}}}
			if reply := twin.Remind(later, late); reply.Entered != 10 {
				t.Errorf("what was granted since it opened is told, too: %+v", reply)
			}
			for at, free := range map[int64]int64{60: 20, 11*60 - 1: 20, 11*60 + 113: 50, 40*60 - 1: 50,
				40*60 + 113: 90} {
				if reply := twin.Peek(now + at*second); reply.Free != free {
					t.Errorf("after %d s %d are free, want %d", at, reply.Free, free)
				}
			}
			twin.Clear(later)
			if reply := twin.Remind(later, RemindRequest{Grants: told.Grants}); reply != (RemindReply{Status: OK}) {
				t.Errorf("a reminder of what was cleared: %+v", reply)
			}
		})
	}
}

// TestAShardIsRemindedOfMoreThanItsShare: what was in use when the share was to fall has to leave
// the window before others may have it.
func TestAShardIsRemindedOfMoreThanItsShare(t *testing.T) {
	for _, a := range []Algorithm{AlgorithmSlidingLog, AlgorithmSlidingCounter, AlgorithmFixedWindow} {
		t.Run(a.String(), func(t *testing.T) {
			twin, now := lostShard(t, a, 0)
			twin.Remind(now, RemindRequest{Grants: []Granted{{Permits: 150}}})
			if p := twin.Peek(now); p.Share != 150 || p.Start != 150 || p.Used != 150 {
				t.Errorf("%+v", p)
			}
			p := terms(t, Terms{Epoch: 1, Target: 100, Floor: 100, Window: time.Hour, Algorithm: a, Reminded: true})
			for _, at := range []int64{now + 60*second, now + 2*3600*second} {
				reply := twin.Take(at, &TakeRequest{Proposal: p, Groups: []Group{{Size: 1, Count: 200}}})
				if want := map[bool]int64{true: 100}[at > now+3600*second]; reply.Granted != want {
					t.Errorf("%d permits, want %d: %+v", reply.Granted, want, reply)
				}
			}
		})
	}
}

// TestABucketIsRemindedOfWhenItIsFull: the latest that any process heard counts, not the sum.
func TestABucketIsRemindedOfWhenItIsFull(t *testing.T) {
	for _, a := range []Algorithm{AlgorithmTokenBucket, AlgorithmLeakyBucket} {
		twin, now := lostShard(t, a, 100)
		for _, full := range []time.Duration{20 * time.Minute, 30 * time.Minute, 10 * time.Minute} {
			twin.Remind(now, RemindRequest{Full: full, Share: 100, Window: time.Hour})
		}
		if p := twin.Peek(now); p.Used != 50 || p.Reset != 30*time.Minute {
			t.Errorf("%v: %+v", a, p)
		}
	}
}

// TestABucketIsNotRemindedOfWhatItKnows: a process that heard of a bucket since it opened, or at
// another rate, does not empty it.
func TestABucketIsNotRemindedOfWhatItKnows(t *testing.T) {
	for _, a := range []Algorithm{AlgorithmTokenBucket, AlgorithmLeakyBucket} {
		twin, now := lostShard(t, a, 100)
		opened := now + int64(Listening(time.Hour)/time.Microsecond)
		for _, r := range []struct {
			told RemindRequest
			used int64
		}{
			{RemindRequest{Full: time.Hour, Share: 100, Window: time.Hour, Under: opened}, 0},
			{RemindRequest{Full: time.Hour, Share: 99, Window: time.Hour}, 0},
			{RemindRequest{Full: time.Hour, Share: 100, Window: time.Minute}, 0},
			{RemindRequest{Full: time.Hour, Share: 100, Window: time.Hour}, 100},
		} {
			if reply := twin.Remind(opened+10*second, r.told); reply.Entered != r.used {
				t.Errorf("%v, of %+v: %+v", a, r.told, reply)
			}
		}
	}
}

func TestRemindersThatMakeNoSense(t *testing.T) {
	many := make([]Granted, MaxGranted+1)
	for i := range many {
		many[i].Permits = 1
	}
	for name, r := range map[string]RemindRequest{
		"too many":           {Grants: many},
		"no permits":         {Grants: []Granted{{}}},
		"in another order":   {Grants: []Granted{{Age: 1, Permits: 1}, {Age: 2, Permits: 1}}},
		"granted under none": {Grants: []Granted{{Under: -1, Permits: 1}}},
		"of no closing":      {Known: -1},
		"full in the past":   {Full: -1},
		"heard under none":   {Under: -1},
		"of no share":        {Share: -1},
		"of no window":       {Window: -1},
		"more than there is": {Grants: []Granted{{Permits: MaxPermits + 1}}},
	} {
		if r.check() == nil {
			t.Errorf("%s: it is sent", name)
		}
	}
	if (RemindRequest{Grants: many[1:]}).check() != nil {
		t.Error("as many as there may be are refused")
	}
}
