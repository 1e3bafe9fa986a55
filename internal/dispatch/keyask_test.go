package dispatch

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// askingKey is a shard of keys whose queue is full: what is asked for waits until the test takes
// it.
func askingKey(tb testing.TB) (*Shard, *sendQueue) {
	sh := grounded(tb)
	sh.Home.Keyed = true
	q := sh.sendQueue()
	q.requests = maxRequests
	return sh, q
}

// answer has a request carry the ask that waits, and take in a reply.
func answer(tb testing.TB, q *sendQueue, reply script.TakeReply) (req *request, s *section) {
	tb.Helper()
	p, err := script.Terms{Epoch: 3, Target: 5, Floor: 5, Window: time.Second}.Proposal()
	if err != nil {
		tb.Fatal(err)
	}
	req = newRequest(q.env, q)
	w, _ := q.pop(req, q.env.Clock.Now())
	req.addKey(w.key)
	s = req.sections[0]
	s.terms, s.Reply = &Terms{Epoch: 3, Window: time.Second, Proposal: p}, reply
	s.Reply.Retry = cmp.Or(reply.Retry, time.Second)
	s.Reply.Epoch, s.Reply.Share, s.Reply.Target = cmp.Or(reply.Epoch, 3), 5, 5
	return req, s
}

// askKey asks for a permit of a key on a goroutine of its own.
func (sh *Shard) askKey(ctx context.Context) (ended func() (a *KeyAsk, answered bool)) {
	done := make(chan func() (*KeyAsk, bool), 1)
	go func() {
		a, answered := sh.account().AskKey(ctx, script.ShardRef{}, 1, sh.env.Clock.Now())
		done <- func() (*KeyAsk, bool) { return a, answered }
	}()
	synctest.Wait()
	return func() (*KeyAsk, bool) { return (<-done)() }
}

// A call that the watchdog gave up may come back late, and tells the ask what it heard: so that is
// not used again. Any other is, and has forgotten all.
func TestAnAskForAKeyThatMayStillBeToldIsNotUsedAgain(t *testing.T) {
	for _, givenUp := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			sh, q := askingKey(t)
			ended := sh.askKey(t.Context())
			req, s := answer(t, q, script.TakeReply{Status: script.OK, Granted: 1, At: 7})
			late := &call{shard: sh}
			if givenUp {
				req.giveUp()
			} else {
				s.learn(late, 5)
				s.deliver(5)
			}
			a, answered := ended()
			if !answered || (a.Err() == nil) == givenUp || a.Granted != 1 == !givenUp {
				t.Fatalf("given up %v: %+v, %v, %v", givenUp, a.Answer, answered, a.Err())
			}
			a.Free()
			again, _ := sh.env.keyAsks.Get().(*KeyAsk)
			if givenUp && again != nil {
				t.Fatalf("%v is used again", again)
			}
			if again != nil && (again.err != nil || again.Answer != Answer{} || again.Known.Answered(1)) {
				t.Errorf("it remembers %+v", again)
			}
			if givenUp {
				s.learn(late, 9)
			}
		})
	}
}

// Who leaves before the call is not asked for. Who leaves after hears of it all the same, and who
// leaves when the answer is there has it.
func TestWhoLeavesAnAskForAKey(t *testing.T) {
	for _, when := range []string{"before", "after", "answered"} {
		synctest.Test(t, func(t *testing.T) {
			sh, q := askingKey(t)
			ctx, leave := context.WithCancel(t.Context())
			ended := sh.askKey(ctx)
			w, _ := q.pop(newRequest(q.env, q), sh.env.Clock.Now())
			a, told, calls := w.key, Part{}, 0
			goes := func() (left bool) {
				leave()
				if _, answered := ended(); answered {
					t.Fatal(when, "answered")
				}
				return a.Leave(func(p Part) { told, calls = p, calls+1 })
			}
			answers := func() {
				a.deliver(&section{terms: &Terms{}, Section: script.Section{Reply: script.TakeReply{Granted: 1, At: 7}}}, 5)
			}
			switch when {
			case "before":
				if !goes() || a.ready(sh.env.Clock.Now(), sh) || calls != 1 || told.N != 0 {
					t.Error(when, told, calls)
				}
			case "after":
				if !a.ready(sh.env.Clock.Now(), sh) || !goes() || calls != 0 {
					t.Error(when, calls)
				}
				if answers(); calls != 1 || (told != Part{Account: sh.account(), At: 7, N: 1}) {
					t.Error(when, told, calls)
				}
			default:
				leave()
				synctest.Wait()
				if answers(); goes() || calls != 0 || a.Granted != 1 {
					t.Error(when, calls)
				}
			}
		})
	}
}

// An ask that has waited for too long is not sent, nor one to a node that others had no answer
// from.
func TestAnAskForAKeyThatIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh, q := askingKey(t)
		ended := sh.askKey(t.Context())
		w, _ := q.pop(newRequest(q.env, q), sh.env.Clock.Now())
		time.Sleep(sh.env.CallTimeout * 4 / 5)
		if w.key.ready(sh.env.Clock.Now(), sh) {
			t.Fatal("it is sent")
		}
		if a, _ := ended(); !errors.Is(a.Err(), ErrOverloaded) {
			t.Error(a.Err())
		}
	})
}

// What a shard refuses is told where that is all there is to it. Anything else is for who knows
// more.
func TestWhatAShardRefusesAKey(t *testing.T) {
	closed := script.Waits{Closed: time.Second}
	for name, c := range map[string]struct {
		n     int64
		reply script.TakeReply
		rare  bool
		plain bool
	}{
		"full":           {n: 1, reply: script.TakeReply{Status: script.OK, Used: 5}, plain: true},
		"several":        {n: 2, reply: script.TakeReply{Status: script.OK, Used: 4}, plain: true},
		"never":          {n: 2, reply: script.TakeReply{Status: script.OK, Used: 5, Waits: script.Waits{Retry: -1}}},
		"rare":           {n: 1, reply: script.TakeReply{Status: script.OK, Used: 5}, rare: true},
		"a later layout": {n: 1, reply: script.TakeReply{Status: script.OK, InForce: script.InForce{Epoch: 4}}},
		"lost":           {n: 1, reply: script.TakeReply{Status: script.Lost, Waits: closed}},
		"closed":         {n: 1, reply: script.TakeReply{Status: script.OK, Waits: closed}},
		"granted, rare":  {n: 1, reply: script.TakeReply{Status: script.OK, Granted: 1}, rare: true, plain: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			sh, q := askingKey(t)
			ended := sh.askKey(t.Context())
			_, s := answer(t, q, c.reply)
			s.key.n, s.take.Rare = c.n, c.rare
			s.learn(&call{shard: sh}, 5)
			s.deliver(5)
			if a, _ := ended(); (a.Err() == nil) != c.plain || a.Known.Rare.Load() != c.rare {
				t.Errorf("%s: %v, rare %v", name, a.Err(), a.Known.Rare.Load())
			}
		})
	}
}
