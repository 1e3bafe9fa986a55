package dispatch

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/script"
)

// batch is the asks that go to a shard in one script call. Callers join it until it is sent, and
// sleep until it was answered; then each of them reads its own answer from it. So a thousand
// callers cost one message to wake them all, and nobody does work for each.
//
// The shard's lock guards it until it was answered. After that it does not change.
//
// Callers of two processors join by turns, and every line of memory that they write changes hands
// then. So what a join needs lies together: as a rule it writes the first line of the batch, the
// line of crowd, and one of the shard.
type batch struct {
	classes []class
	tally
	few struct { // for most batches
		classes  [2]class
		accounts [1]*Account
	}

	accounts []*Account // of the participants in it
	sleepers
	over atomic.Bool // the outcome is there
	outcome

	sent   bool   // who leaves now may have spent permits
	number uint64 // of the call
	links  []trace.Link
	next   *batch // the one behind it
}

// tally is how many calls a batch carries, and since when.
type tally struct {
	serials uint64 // how many ever joined
	left    uint64 // how many left before it was sent
	opened  int64  // when the first of them joined
	oldest  int64  // when the first of their calls began; callers who left count
}

// sleepers are those who wait for the answer to a batch.
type sleepers struct {
	watched  <-chan struct{} // the context that one caller watches for all of the crowd that have the same
	crowd    sync.Cond       // those who need not watch a context of their own
	answered chan struct{}   // tells those who watch that it was; nil if nobody ever did
}

// outcome is what became of a batch.
type outcome struct {
	err     error
	at      clock.ServerTime  // shard time of the grants
	now     int64             // when the reply came, on the process' clock
	paced   *script.TakeReply // tells when permits act; nil unless the algorithm is LeakyBucket
	retry   time.Duration
	rest    int64 // what was free as far as this process knows, before the first was granted
	refused int64 // size of the first ask that was refused: the one retry is about; 0: none
}

// class is the asks of one size for one participant in a batch.
type class struct {
	account     *Account
	size, count int64
	place       int32 // of the account among those of the batch
	gaps        bool  // somebody left, so that places do not tell the order any more
	left        int64 // of count: their callers left after the batch was sent
	granted     int64
	ahead       int64        // permits granted to the classes before it
	claimed     atomic.Int64 // only used if some left
}

// calls returns how many are in it; also those who left after it was sent.
func (b *batch) calls() int64 { return int64(b.serials - b.left) }

// wanted returns how many permits they want; also those who left after it was sent.
func (b *batch) wanted() (n int64) {
	for i := range b.classes {
		n += b.classes[i].size * b.classes[i].count
	}
	return n
}

// gate is a shard's lock as a sync.Cond wants it, except that those who wake up do not take it
// again: all of a batch wake at once, and only read.
type gate struct{ mu *sync.Mutex }

func (g gate) Lock()   {}
func (g gate) Unlock() { g.mu.Unlock() }

func newBatch(sh *Shard) *batch {
	b := &batch{}
	b.classes, b.accounts = b.few.classes[:0], b.few.accounts[:0]
	b.crowd.L = gate{&sh.mu}
	return b
}

// link ties the call of the batch to the span of one of its callers.
//
//go:noinline
func (b *batch) link(l *trace.Link) { b.links = append(b.links, *l) }

// take finds a place for the ask and reports false if the batch has none.
func (b *batch) take(a *Ask) bool {
	size, count := a.shape()
	i := 0
	for ; i < len(b.classes); i++ {
		if k := &b.classes[i]; k.size == size && k.account == a.Account && k.count+count <= script.MaxPermits {
			break
		}
	}
	if i == len(b.classes) && !b.open(a.Account, size) {
		return false
	}
	a.place = b.classes[i].count
	b.classes[i].count += count
	a.batch, a.class, a.serial = b, int32(i), b.serials
	if b.serials == 0 || a.Since < b.oldest {
		b.oldest = a.Since
	}
	b.serials++
	return true
}

// open adds a class, unless there are as many as a call can have. Inlined, it would
// enlarge the stack of every caller.
//
//go:noinline
func (b *batch) open(acc *Account, size int64) bool {
	if len(b.classes) == script.MaxGroups {
		return false
	}
	i := slices.Index(b.accounts, acc)
	if i < 0 {
		i = len(b.accounts)
		b.accounts = append(b.accounts, acc)
	}
	b.classes = append(b.classes, class{account: acc, place: int32(i), size: size})
	return true
}

// leave takes an ask out. If the batch was sent, its permits are given back with the answer, unless
// another ask of its class can use them.
func (b *batch) leave(a *Ask) {
	_, count := a.shape()
	k := &b.classes[a.class]
	k.gaps = true
	if b.sent {
		k.left += count
		return
	}
	k.count -= count
	b.left++
}

// singles reports whether nobody in it wants several permits or none: when so many
// are free together only the shard can tell.
func (b *batch) singles() bool {
	for i := range b.classes {
		if b.classes[i].size > 1 {
			return false
		}
	}
	return true
}

// heldBack reports whether the shard wants to see none of its participants at this time.
func (b *batch) heldBack(now int64) bool {
	return !slices.ContainsFunc(b.accounts, func(acc *Account) bool { return !acc.Paced(now) })
}

// groups appends the classes as the script wants them.
func (b *batch) groups(dst []script.Group) []script.Group {
	for i := range b.classes {
		if k := &b.classes[i]; k.count > 0 {
			dst = append(dst, script.Group{Size: k.size, Count: k.count, Caller: int(k.place)})
		}
	}
	return dst
}

// grant takes in how many asks of each group the script has granted, and returns
// the permits that nobody gets because too few of their callers are still there.
func (b *batch) grant(asks []int64) (lost int64) {
	granted := int64(0)
	for i := range b.classes {
		k := &b.classes[i]
		if k.count == 0 {
			continue // not among the groups
		}
		k.granted, asks = asks[0], asks[1:]
		k.ahead, granted = granted, granted+k.granted*k.size
		lost += k.unclaimed() * k.size
		if b.refused == 0 && k.granted < k.count {
			b.refused = k.size
		}
	}
	b.rest += granted
	return lost
}

// unclaimed is how many grants of the class nobody is there for any more.
func (k *class) unclaimed() int64 { return max(0, k.granted-(k.count-k.left)) }

// unclaimed returns what an answered batch was granted for callers who have left: the last of each
// class.
func (b *batch) unclaimed() (parts []Part) {
	for i := range b.classes {
		if k := &b.classes[i]; k.unclaimed() > 0 {
			p := Part{Account: k.account, At: b.at, N: k.unclaimed() * k.size}
			if b.paced != nil {
				p.At = b.paced.RefundAt(k.ahead + k.granted*k.size - 1)
			}
			parts = append(parts, p)
		}
	}
	return parts
}

// read puts what the batch has for an ask into it, once at most.
func (b *batch) read(a *Ask) error {
	if b.err != nil {
		return b.err
	}
	size, count := a.shape()
	k := &b.classes[a.class]
	// First come, first served.
	got := min(max(k.granted-a.place, 0), count)
	taken := a.place + got
	if k.gaps {
		got, taken = k.claim(count)
	}
	end := k.ahead + taken*size // of its permits, among all that the batch was granted
	a.Answer = Answer{Granted: got * size, At: b.at, Ticket: b.number<<20 | a.serial, Now: b.now, Rest: b.rest - end}
	if b.paced != nil && got > 0 {
		a.At, a.First, a.Delay = b.paced.RefundAt(end-1), b.paced.DelayOf(end-a.Granted), b.paced.DelayOf(end-1)
	}
	if got < count {
		a.Retry = UnknownRetry
		if size == b.refused {
			a.Retry = b.retry
		}
	}
	return nil
}

// claim takes up to count of the grants of a class that did not get all it wanted, and
// returns how many of them are taken then.
func (k *class) claim(count int64) (got, taken int64) {
	if k.granted == 0 {
		return 0, 0
	}
	end := k.claimed.Add(count)
	return min(max(k.granted-(end-count), 0), count), min(end, k.granted)
}

// Sleep waits until somebody wakes the crowd of the ask's batch. The shard's lock is held at first,
// and not after. The compiler inlines it.
func (a *Ask) Sleep() { a.batch.crowd.Wait() }

// watch waits for the answer on behalf of a caller that looks after its context itself: whoever is
// the first of the batch with it. The many others of a program that hands the same context to all
// its calls then sleep without, which takes half the time. The shard's lock is held at first, and
// not after.
func (a *Ask) watch(ctx context.Context, done <-chan struct{}) error {
	sh, b := a.Account.Shard, a.batch
	if b.answered == nil {
		b.answered = make(chan struct{})
	}
	forAll := b.watched == nil
	if forAll {
		b.watched = done
	}
	sh.mu.Unlock()
	select {
	case <-b.answered:
		return a.read(ctx)
	case <-done:
	}
	sh.mu.Lock()
	if forAll {
		b.watched = nil // or one that joins after this would not be woken
		b.crowd.Broadcast()
	}
	over := b.over.Load()
	if !over {
		sh.quit(a)
	}
	sh.mu.Unlock()
	if over {
		return a.read(ctx)
	}
	return clock.Ended(ctx)
}
