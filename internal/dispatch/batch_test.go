package dispatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// grounded is a shard that nobody sends for: the test moves its batches by itself.
func grounded(tb testing.TB) *Shard {
	tb.Helper()
	e := &Env{Ctx: context.Background(), Clock: &clock.Clock{Base: time.Now()}, CallTimeout: 100 * time.Millisecond}
	var err error
	if e.Telemetry, err = telemetry.New(e.Clock, metricnoop.NewMeterProvider(), tracenoop.NewTracerProvider(),
		nil); err != nil {
		tb.Fatal(err)
	}
	n := node.New(node.Spec{Name: "n"}, &node.Settings{Clock: e.Clock, Telemetry: e.Telemetry})
	n.Close() // it cannot be reached
	home := &Home{Metrics: telemetry.NewLimiter("l", "sliding_log")}
	sh := (&Shard{}).Init(e, home, &quietLimit{}, script.ShardRef{}, n, &Terms{Most: 1})
	sh.sendQueue().rtt.Store(1) // nearby
	sh.sendQueue().samples.Store(minSamples)
	sh.underWay = 1 // as if a batch were under way for ever: so it is not queued
	sh.Limit.(*quietLimit).own = NewAccount(&Participant{ID: "p", Weight: 1000}, sh)
	return sh
}

// quietLimit is a limit that has no other shards and hears nothing.
type quietLimit struct{ own *Account }

func (*quietLimit) Belief(int64, clock.Elapsed) Belief           { return Belief{} }
func (*quietLimit) Confirm(context.Context, clock.Elapsed) error { return nil }
func (*quietLimit) Learned(*Shard, News)                         {}

// next is the batch that is sent next.
func (sh *Shard) next() *batch { return sh.nextBatch() }

// serve has the next batch sent and answered with so many permits free.
func (sh *Shard) serve(free int64) *batch {
	b := sh.next()
	if b != nil {
		asks, _ := script.Distribute(nil, free, b.groups(nil))
		sh.answer(b, asks, nil)
	}
	return b
}

// account is that of the process itself.
func (sh *Shard) account() *Account { return sh.Limit.(*quietLimit).own }

// outcomeOf is what one caller got.
type outcomeOf struct {
	Answer
	err   error
	ended atomic.Bool
}

// call asks on a goroutine of its own.
func (sh *Shard) call(ctx context.Context, n int64, upTo bool) *outcomeOf {
	o := new(outcomeOf)
	now := sh.env.Clock.Now()
	go func() {
		a := Ask{N: n, UpTo: upTo, Since: now}
		o.err = sh.account().Ask(ctx, &a, now)
		o.Answer = a.Answer
		o.ended.Store(true)
	}()
	synctest.Wait()
	return o
}

// Whatever the sizes, whoever leaves before or after the batch is sent: what the
// script grants goes to those who stay, as far as they want it, the rest is
// given back, and nothing is asked for those who left in time.
func TestWhatABatchIsGrantedGoesToThoseWhoStay(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		sh := &Shard{env: &Env{}}
		b := newBatch(sh)
		var staying []*Ask
		leave := func() {
			for i := len(staying) - 1; i >= 0; i-- {
				if random.IntN(4) == 0 {
					b.leave(staying[i])
					staying = append(staying[:i], staying[i+1:]...)
				}
			}
		}
		for range 1 + random.IntN(40) {
			a := &Ask{N: 1 + random.Int64N(5), UpTo: random.IntN(3) == 0}
			if !b.take(a) {
				t.Fatal("no room")
			}
			staying = append(staying, a)
		}
		leave()
		wanted := int64(0)
		for _, a := range staying {
			wanted += a.N
		}
		groups := b.groups(nil)
		for _, g := range groups {
			wanted -= g.Size * g.Count
		}
		if wanted != 0 {
			t.Fatalf("seed %d: asks for %d permits less than the callers want", seed, wanted)
		}
		b.sent = true
		leave()
		asks, granted := script.Distribute(nil, random.Int64N(100), groups)
		lost := b.grant(asks)
		random.Shuffle(len(staying), func(i, j int) { staying[i], staying[j] = staying[j], staying[i] })
		got, unserved := int64(0), false
		for _, a := range staying {
			if err := b.read(a); err != nil || a.Granted < 0 || a.Granted > a.N || !a.UpTo && a.Granted%a.N != 0 {
				t.Fatalf("seed %d: %+v, %v", seed, a, err)
			}
			got += a.Granted
			unserved = unserved ||
				a.Granted < a.N && lost > 0 &&
					b.classes[a.class].granted > b.classes[a.class].count-b.classes[a.class].left
		}
		if got+lost != granted {
			t.Fatalf("seed %d: %d granted, %d handed out and %d lost", seed, granted, got, lost)
		}
		if unserved {
			t.Fatalf("seed %d: permits are lost that a caller wanted", seed)
		}
	}
}

func TestACallerLeavesAtOnceWhateverContextTheOthersHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := grounded(t)
		shared, endShared := context.WithCancelCause(t.Context())
		own, endOwn := context.WithCancel(t.Context())
		var together []*outcomeOf
		for range 20 {
			together = append(together, sh.call(shared, 1, false))
		}
		alone := sh.call(own, 1, false)
		stays := sh.call(context.Background(), 1, false)
		if n := sh.Unanswered.Load(); n != 22 {
			t.Fatalf("%d wait, want 22", n)
		}
		boom := errors.New("boom")
		endShared(boom)
		synctest.Wait()
		for i, o := range together {
			if !o.ended.Load() || !errors.Is(o.err, boom) {
				t.Fatalf("caller %d: ended %t, %v", i, o.ended.Load(), o.err)
			}
		}
		if alone.ended.Load() || stays.ended.Load() {
			t.Fatal("a caller ended with another one's context")
		}
		b := sh.next()
		if g := b.groups(nil); len(g) != 1 || g[0].Count != 2 {
			t.Errorf("asks for %v, but two callers are left", g)
		}
		endOwn()
		synctest.Wait()
		if !alone.ended.Load() || !errors.Is(alone.err, context.Canceled) {
			t.Errorf("in flight: ended %t, %v", alone.ended.Load(), alone.err)
		}
		sh.answer(b, []int64{1}, nil)
		synctest.Wait()
		if stays.Granted != 1 || sh.Unanswered.Load() != 0 {
			t.Errorf("%+v, %d wait", stays, sh.Unanswered.Load())
		}
	})
}

func TestABatchIsDissolvedWhenSomebodyHasWaitedTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := grounded(t)
		old := sh.call(t.Context(), 1, false)
		time.Sleep(60 * time.Millisecond)
		young := sh.call(t.Context(), 1, false)
		time.Sleep(20 * time.Millisecond)
		behind := newBatch(sh) // so that the shard goes on
		behind.opened = sh.env.Clock.Now()
		behind.take(&Ask{N: 1, Account: sh.account(), Since: sh.env.Clock.Now()})
		sh.tail.next, sh.tail = behind, behind
		if b := sh.serve(9); b != behind {
			t.Error("a call was sent too late")
		}
		synctest.Wait()
		sh.serve(9) // unless the young one was quick enough for the batch behind
		synctest.Wait()
		if !errors.Is(old.err, ErrOverloaded) {
			t.Errorf("the old one: %+v", old)
		}
		if young.err != nil || young.Granted != 1 {
			t.Errorf("the young one: %+v", young)
		}
	})
}

// TestWhoGoesOnFromADissolvedBatchIsAnsweredInTime: a caller of a dissolved batch joins another
// one, perhaps behind a younger caller. Its own timer ends it in time.
func TestWhoGoesOnFromADissolvedBatchIsAnsweredInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := grounded(t)
		sh.call(t.Context(), 1, false)
		time.Sleep(40 * time.Millisecond)
		came := sh.env.Clock.Now()
		young := sh.call(t.Context(), 1, false)
		time.Sleep(40 * time.Millisecond)
		sent := sh.nextBatch() // there is none, unless the young one was quick enough to go on
		if sent != nil && sent.oldest < came {
			t.Error("a call was sent too late")
		}
		time.Sleep(sh.env.CallTimeout - 40*time.Millisecond) // nothing is answered any more
		synctest.Wait()
		if !young.ended.Load() || sent == nil && !errors.Is(young.err, ErrOverloaded) {
			t.Errorf("ended %t: %v", young.ended.Load(), young.err)
		}
	})
}

func TestMoreSizesThanACallCarriesGoInSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := grounded(t)
		const sizes = 2*script.MaxGroups + 1
		var callers []*outcomeOf
		for n := range int64(sizes) {
			callers = append(callers, sh.call(t.Context(), n+1, false), sh.call(t.Context(), n+1, false))
		}
		var batches int
		for sh.head != nil {
			sh.serve(1 << 40)
			batches++
		}
		synctest.Wait()
		for i, o := range callers {
			if o.Granted != int64(i/2)+1 {
				t.Errorf("caller %d: %+v", i, o)
			}
		}
		if batches < 3 || batches > 4 { // an ask behind a full batch does not go back to it
			t.Errorf("%d calls", batches)
		}
	})
}

// serveOn serves batches until end is called, each with so many grants as many tells. On each
// of them there is one who stays and reads.
func serveOn(t *testing.T, sh *Shard, many func() int64) (end func()) {
	stop := make(chan struct{})
	var flier sync.WaitGroup
	flier.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				extra := Ask{N: 1, Account: sh.account(), Since: sh.env.Clock.Now()}
				sh.join(&extra)
				sh.mu.Unlock()
				sh.serve(many())
				if err := extra.read(context.Background()); err != nil {
					t.Error(err)
				}
				runtime.Gosched()
			}
		}
	})
	return func() { close(stop); flier.Wait() }
}

// For the race detector: everybody joins, leaves and reads at once.
func TestABatchUnderLoad(t *testing.T) {
	sh := grounded(t)
	sh.env.CallTimeout = time.Hour
	var callers sync.WaitGroup
	end := serveOn(t, sh, func() int64 { return rand.Int64N(40) })
	shared, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 32 {
		callers.Go(func() {
			for range 200 {
				ctx, end := shared, func() {}
				switch rand.IntN(4) {
				case 0:
					ctx = context.Background()
				case 1:
					ctx, end = context.WithTimeout(shared, time.Duration(rand.IntN(200))*time.Microsecond)
				}
				now := sh.env.Clock.Now()
				_ = sh.account().Ask(ctx, &Ask{N: 1 + int64(i%3), UpTo: i%5 == 0, Since: now}, now)
				end()
			}
		})
	}
	callers.Wait()
	end()
	if n := sh.Unanswered.Load(); n != 0 {
		t.Errorf("%d wait for ever", n)
	}
}

// A caller of the crowd may be woken because a context that others have ended, or
// for nothing: it sleeps on, and gets its answer.
func TestWhoeverIsWokenForNothingSleepsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := grounded(t)
		stays := sh.call(context.Background(), 1, false)
		for range 3 {
			sh.tail.crowd.Broadcast()
			synctest.Wait()
			if stays.ended.Load() {
				t.Fatal("answered before its batch")
			}
		}
		sh.serve(1)
		synctest.Wait()
		if stays.err != nil || stays.Granted != 1 || sh.Unanswered.Load() != 0 {
			t.Errorf("%+v, %d wait", stays, sh.Unanswered.Load())
		}
	})
}

// A call that never left this process is no silence of the node.
func TestACallThatIsNeverSentIsOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := grounded(t)
		time.Sleep(36 * time.Millisecond)
		a, ended := Ask{N: 1, Since: 1}, make(chan error, 1)
		go func() { ended <- sh.account().Ask(t.Context(), &a, sh.env.Clock.Now()) }()
		time.Sleep(65 * time.Millisecond)
		if err := <-ended; !errors.Is(err, ErrOverloaded) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// A call that comes to a shard when much of its time is over ends in its time, though the script
// call that carries it has more: a shard that is silent then is no overload.
func TestACallThatBoardsLateEndsInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := grounded(t)
		time.Sleep(36 * time.Millisecond)
		a, ended := Ask{N: 1, Since: 1}, make(chan error, 1)
		go func() { ended <- sh.account().Ask(t.Context(), &a, sh.env.Clock.Now()) }()
		synctest.Wait()
		b := sh.next()
		if b == nil {
			t.Fatal("nothing is sent")
		}
		time.Sleep(64*time.Millisecond + time.Microsecond)
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrOverloaded) {
				t.Errorf("it ended with %v", err)
			}
		default:
			t.Error("it waits on")
			sh.answer(b, nil, context.DeadlineExceeded)
		}
	})
}
