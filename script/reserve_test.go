package script

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/extent"
)

// naive is what a sliding log with reservations means: every permit under its own date, nothing
// merged, nothing remembered in totals.
type naive struct {
	share, window int64
	permits       []dated // in order of their dates
}

type dated struct{ at, n int64 }

// after returns the permits dated after the instant.
func (m *naive) after(at int64) (n int64) {
	for _, p := range m.permits {
		if p.at > at {
			n += p.n
		}
	}
	return n
}

// within returns how many permits the window holds that ends at an instant.
func (m *naive) within(end int64) int64 { return m.after(end-m.window) - m.after(end) }

// most returns the most that any window holds that the instant is in.
func (m *naive) most(at int64) int64 {
	most := m.within(at)
	for _, p := range m.permits {
		if p.at > at && p.at < at+m.window {
			most = max(most, m.within(p.at))
		}
	}
	return most
}

// room reports whether n permits can be granted now: if every window has room that now is in.
func (m *naive) room(now, n int64) bool { return m.most(now)+n <= m.share }

func (m *naive) add(at, n int64) {
	i, _ := slices.BinarySearchFunc(m.permits, at+1, func(p dated, at int64) int { return int(p.at - at) })
	m.permits = slices.Insert(m.permits, i, dated{at, n})
}

// fits returns the first instant after the delay at which n permits have room: now, beside what is
// booked, or behind everything that is.
func (m *naive) fits(now, n, delay int64) int64 {
	if delay == 0 && m.room(now, n) {
		return now
	}
	date := now + delay
	if len(m.permits) > 0 {
		date = max(date, m.permits[len(m.permits)-1].at)
	}
	for m.after(date-m.window)+n > m.share {
		for _, p := range m.permits {
			if p.at+m.window > date {
				date = p.at + m.window
				break
			}
		}
	}
	return date
}

// cancel takes up to n permits away from those under the date, and returns how many.
func (m *naive) cancel(now, at, n int64) (gone int64) {
	for i := range m.permits {
		if p := &m.permits[i]; p.at == at && at > now-m.window {
			part := min(p.n, n-gone)
			p.n -= part
			gone += part
		}
	}
	m.forget(now)
	return gone
}

func (m *naive) forget(now int64) {
	m.permits = slices.DeleteFunc(m.permits, func(p dated) bool { return p.n == 0 || p.at <= now-3*m.window })
}

// bookings is a random walk of takes, reservations, refunds and cancellations.
type bookings struct {
	random *rand.Rand
	now    int64
	model  naive
	terms  *Proposal
	held   []dated // what was granted and may be given back
}

// step makes one random call on the log and compares it with the model: which must agree to the
// permit where exact, and where not, the log must keep to the limit all the same.
func (b *bookings) step(t testing.TB, log *twin, exact bool) {
	m := &b.model
	gap, most := m.window/5, m.share
	if !exact { // so many that entries merge
		gap, most = m.window/100, m.share/20
	}
	if b.random.IntN(3) > 0 {
		b.now += b.random.Int64N(1 + b.random.Int64N(gap))
	}
	n := 1 + b.random.Int64N(1+b.random.Int64N(most))
	switch b.random.IntN(8) {
	case 0, 1, 2:
		r := log.Take(b.now, &TakeRequest{Proposal: b.terms, Groups: []Group{{Size: n, Count: 1}}})
		if free := m.room(b.now, n); exact && free != (r.Granted == n) {
			t.Fatalf("%d permits: free is %t, %+v", n, free, r)
		}
		b.got(t, int64(r.At), r.Granted)
		// Grants that share an entry leave up to a cell later.
		if late := m.window/logCells + 1; !exact && r.Used > m.after(b.now-m.window-late) {
			t.Fatalf("more is held back than %d: %+v", m.after(b.now-m.window-late), r)
		}
	case 3, 4, 5:
		b.reserve(t, log, n, exact)
	default:
		b.giveBack(t, log, exact)
	}
}

func (b *bookings) reserve(t testing.TB, log *twin, n int64, exact bool) {
	m := &b.model
	r := &ReserveRequest{
		Proposal: b.terms, Permits: n, MaxDelay: time.Duration(b.random.IntN(300)) * time.Millisecond,
	}
	if b.random.IntN(3) == 0 {
		r.MinDelay = time.Duration(b.random.Int64N(int64(r.MaxDelay) + 1)).Truncate(time.Microsecond)
	}
	reply := log.Reserve(b.now, r)
	asked := b.now
	at := m.fits(b.now, n, int64(r.MinDelay/time.Microsecond))
	delay := duration(at - b.now)
	fits := delay <= min(r.MaxDelay, duration(m.window))
	switch {
	case !exact:
	case fits && (reply.Granted != n || int64(reply.At) != at || reply.Delay != delay):
		t.Fatalf("at %d, %d permits at %d: %+v", b.now, n, at, reply)
	case !fits && (reply.Granted != 0 || reply.Retry != delay):
		t.Fatalf("at %d, %+v should be refused for %v: %+v", b.now, r, delay, reply)
	}
	b.got(t, int64(reply.At), reply.Granted)
	if reply.Delay == duration(m.window) {
		b.now++ // what is granted at this very instant would count in one window with it
	}
	if used := m.after(asked - m.window); exact && reply.Used != used {
		t.Fatalf("used %d: %+v", used, reply)
	}
}

func (b *bookings) giveBack(t testing.TB, log *twin, exact bool) {
	if len(b.held) == 0 {
		return
	}
	i := b.random.IntN(len(b.held))
	back := b.held[i]
	if exact && b.random.IntN(8) == 0 {
		back.at-- // nothing was granted then, as a rule
	}
	part := 1 + b.random.Int64N(back.n)
	r := log.Settle(b.now, SettleRequest{Back: part, At: clock.ServerTime(back.at)})
	if r.Back > part {
		t.Fatalf("%d of %d came back", r.Back, part)
	}
	if !exact {
		b.model.cancel(b.now, back.at, r.Back)
	} else if want := b.model.cancel(b.now, back.at, part); r.Back != want {
		t.Fatalf("%d permits of %d: want %d back, %+v", part, back.at, want, r)
	} else if b.random.IntN(4) == 0 {
		return // it will be asked for once more
	}
	if b.held[i].n -= part; b.held[i].n == 0 {
		b.held = slices.Delete(b.held, i, i+1)
	}
}

// got notes a grant and checks promise P1 for every window that it is in.
func (b *bookings) got(t testing.TB, at, n int64) {
	if n == 0 {
		return
	}
	b.model.forget(b.now)
	b.model.add(at, n)
	if most := b.model.most(at); most > b.model.share {
		t.Fatalf("a window holds %d", most)
	}
	b.held = append(b.held, dated{at, n})
	b.held = slices.DeleteFunc(b.held, func(p dated) bool { return p.at <= b.now-b.model.window })
}

func TestReservationsAgreeWithANaiveModel(t *testing.T) {
	steps := extent.Some(400_000)
	for _, share := range []int64{1, 3, 10, 60, 128, 1000} { // above 128 entries merge
		t.Run(strconv.FormatInt(share, 10), func(t *testing.T) {
			t.Parallel()
			b, shard, steps := &bookings{
				random: rand.New(rand.NewPCG(1, uint64(share))), now: epoch0,
				model: naive{share: share, window: 100_000}, terms: proposal(t, 1, share, 100*time.Millisecond),
			}, newTwin(AlgorithmSlidingLog), steps
			if share > exactShare {
				steps /= 8 // the model keeps many more permits apart
			}
			for range steps {
				b.step(t, shard, share <= exactShare)
				own := shard.own.(*log)
				if n := len(own.entries); n > 2*(exactShare+logCells) || n-own.past > exactShare+2 {
					t.Fatalf("%d entries", n)
				}
			}
			b.now += 1000 * b.model.window
			if r := shard.Peek(b.now); r.Used != 0 {
				t.Fatalf("%d permits are left over", r.Used)
			}
		})
	}
}

// TestStepsBackWithReservations: a step back right after a grant, which the shard notices, neither
// frees nor blocks, and moves no date. The next test has a step that no shard can notice.
func TestStepsBackWithReservations(t *testing.T) {
	p := proposal(t, 1, 10, time.Second)
	rapid.Check(t, func(t *rapid.T) {
		log := newTwin(AlgorithmSlidingLog)
		log.Take(1_000_000_000, ones(p, 10))
		ahead := log.Reserve(1_000_000_000,
			&ReserveRequest{Proposal: p, Permits: 4, MaxDelay: time.Hour})
		back := rapid.Int64Range(0, 900_000_000).Draw(t, "back")
		r := log.Reserve(1_000_000_000-back,
			&ReserveRequest{Proposal: p, Permits: 6, MaxDelay: time.Hour})
		if r.At != ahead.At || r.Delay != time.Second {
			t.Fatalf("%+v after %+v", r, ahead)
		}
		if late := log.Take(1_001_000_000-back, ones(p, 1)); late.Granted != 0 || late.At != ahead.At ||
			late.Used != 10 {
			t.Fatalf("%+v", late)
		}
		if later := log.Take(1_002_000_000-back, ones(p, 10)); later.Granted != 10 {
			t.Fatalf("%+v", later)
		}
	})
}

// TestAStepBackThatIsNotNoticed: what is booked is used when it is due by real time, and the shard,
// whose clock was set back by less than has passed since it was booked, takes it for later. No
// window is over all the same: what is granted meanwhile counts in the window of the booking.
func TestAStepBackThatIsNotNoticed(t *testing.T) {
	const window, part = 1_000_000, 130_000
	for delay := int64(part); delay < window; delay += part {
		for passed := int64(0); passed <= delay; passed += part {
			for back := int64(0); back <= passed; back += part / 2 {
				stepBackUnnoticed(t, delay, passed, back)
			}
		}
	}
}

// stepBackUnnoticed books a share ahead, sets the clock back when a while has passed, and then
// takes all there is for some windows.
func stepBackUnnoticed(t *testing.T, delay, passed, back int64) {
	const begun, tick, share, window = 1_000_000_000, 20_000, 10, 1_000_000
	log, p := newTwin(AlgorithmSlidingLog), proposal(t, 1, share, time.Second)
	r := log.Reserve(begun, &ReserveRequest{Proposal: p, Permits: share, MaxDelay: time.Hour,
		MinDelay: duration(delay)})
	if r.Granted != share || r.Delay != duration(delay) {
		t.Fatalf("%+v", r)
	}
	granted := naive{share: share, window: window} // by real time
	for now := passed; now < delay+back+3*window; now += tick {
		if n := log.Take(begun+now-back, ones(p, share)).Granted; n > 0 {
			granted.add(now, n)
		}
	}
	all := granted
	all.permits = slices.Clone(granted.permits)
	all.add(delay, share)
	for _, g := range granted.permits {
		if most := all.most(g.at); most > share {
			t.Fatalf("due in %d, %d back after %d: a window holds %d", delay, back, passed, most)
		}
	}
	if again := granted.after(delay + back); again < 2*share { // by then the shard has it behind it, too
		t.Fatalf("due in %d, %d back after %d: %d permits in the end", delay, back, passed, again)
	}
}
