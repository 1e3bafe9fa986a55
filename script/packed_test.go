package script

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/columns"
	"github.com/shardlimit/shardlimit/internal/limittest/ledger"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

var allAlgorithms = []Algorithm{AlgorithmSlidingLog, AlgorithmSlidingCounter, AlgorithmFixedWindow,
	AlgorithmTokenBucket, AlgorithmLeakyBucket}

// packedTwin is a twin whose state tests can read.
type packedTwin interface {
	twin
	head() string // as the scripts store it
	Ledger(now int64) LedgerReply
	ledger() *ledger.Ledger
	runFor(uptime time.Duration)
}

// Ledger lists the participants, as [Endpoint.Ledger] does.
func (m *packed[S, R]) Ledger(now int64) LedgerReply {
	if !m.present(now) {
		return LedgerReply{}
	}
	v := m.look(now)
	b := LedgerReply{Status: OK, Contended: v.fair.contended > 0 && v.fair.contended+2*v.window > v.now}
	if b.Contended {
		if read, err := fairness.ParseLedger(v.fair.ledger.Fields()); err == nil {
			b.Standings = read.Standings(v.term())
		}
	}
	return b
}

// head renders the twin's state as the scripts store it.
func (m *packed[S, R]) head() string {
	if m.epoch == 0 {
		return ""
	}
	own := any(&m.own).(interface{ text() string })
	sign := ";"
	if m.closedUntil+m.offset+m.fair.contended > 0 {
		sign = fmt.Sprintf(":%d %d %d;", m.closedUntil, m.offset, m.fair.contended)
	}
	return fmt.Sprintf("%s%d %d %d %d %d %d", m.letter(), m.epoch, m.revision, m.target, m.window, m.burst, m.share) +
		string(columns.Packed.Append([]byte(sign), 0, m.start, m.returned, m.touched)) + own.text()
}

func (m *packed[S, R]) letter() string {
	for _, a := range allAlgorithms {
		if reflect.TypeOf(newTwin(a)) == reflect.TypeOf(m) {
			return letters[a]
		}
	}
	panic("no such packed algorithm")
}

func (m *packed[S, R]) ledger() *ledger.Ledger { return &m.fair.ledger }

func (m *packed[S, R]) runFor(uptime time.Duration) { m.uptime, m.uptimeKnown = uptime, true }

func (t *tokenBucket) text() string {
	text := columns.TokenBucket.Append(nil, 0, t.date, t.part, t.since)
	for _, n := range t.lows {
		text = columns.Low.Append(text, 0, n)
	}
	for _, b := range t.bookings {
		text = columns.Booking.Append(text, 0, b.date, b.permits)
	}
	return string(text)
}

func (l *leakyBucket) text() string {
	return string(columns.LeakyBucket.Append(nil, 0, l.last, l.lastPart))
}

// packedStage draws sequences for an algorithm.
type packedStage struct {
	*stage
	algorithm Algorithm
	burst     map[int64]int64 // by epoch: it does not change under one
	retire    map[int64]bool  // epochs in which the shard leaves to another algorithm
}

// fit makes a step of the stage one of the algorithm.
func (s *packedStage) fit(st *step) {
	switch {
	case st.take != nil:
		copied := *st.take
		copied.Proposal = s.fitted(copied.Proposal)
		st.take = &copied
	case st.book != nil:
		copied := *st.book
		copied.Proposal = s.fitted(copied.Proposal)
		st.book = &copied
	case st.settle != nil && st.settle.Proposal != nil:
		copied := *st.settle
		copied.Proposal = s.fitted(copied.Proposal)
		st.settle = &copied
	}
}

func (s *packedStage) fitted(p *Proposal) *Proposal {
	burst, drawn := s.burst[p.epoch]
	if !drawn {
		s.retire[p.epoch] = rapid.IntRange(0, 4).Draw(s.t, "retire") == 0
		burst = rapid.SampledFrom([]int64{0, 0, 1, 3, p.target/2 + 1, 2 * p.target, 7*p.target + 3}).Draw(s.t, "burst")
		s.burst[p.epoch] = burst
	}
	terms := Terms{
		Epoch: p.epoch, Target: p.target, Floor: p.floor, Window: duration(p.window), Keep: keep,
		Algorithm: s.algorithm,
		Burst:     min(burst, MaxPermits), Quarantine: p.lasts > 0,
		Held: max(p.held, 0), HeldKnown: p.held >= 0,
	}
	if s.retire[p.epoch] {
		terms.Target, terms.Floor, terms.Retire = 0, 0, true
	}
	fitted, err := terms.Proposal()
	if err != nil {
		terms.Burst = 0
		if fitted, err = terms.Proposal(); err != nil {
			s.t.Fatal(err)
		}
	}
	return fitted
}

// aimTurn makes refunds of a leaky bucket aim at turns.
func (s *packedStage) aimTurn(st *step) {
	if st.settle == nil || st.settle.Back == 0 || s.algorithm != AlgorithmLeakyBucket || len(s.grants) == 0 {
		return
	}
	last := s.grants[len(s.grants)-1]
	st.settle = &SettleRequest{Back: st.settle.Back, At: last.RefundAt(last.Granted - 1), Caller: st.settle.Caller}
}

// agreePacked runs one generated sequence on twin and server and compares every reply, and every
// byte that is stored.
func agreePacked(t *rapid.T, a Algorithm, twin packedTwin, server clockedShard) {
	s := &packedStage{stage: newStage(t), algorithm: a, burst: map[int64]int64{}, retire: map[int64]bool{}}
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		for _, step := range s.steps() {
			s.fit(&step)
			s.aimTurn(&step)
			was := twin.head()
			want, got, err := s.play(step, twin, server, twin.ledger().Clear)
			if err != nil {
				head, ledger := server.stored()
				t.Fatalf("%v: %s: %v\nstored %q %q\ntwin   %q", a, describe(step), err, head, ledger, twin.head())
			}
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("%v: %s:\ntwin   %+v\nserver %+v\nwas %q\nis  %q", a, describe(step), want, got, was,
					twin.head())
			}
			if head, ledger := server.stored(); head != twin.head() || ledger != fmt.Sprint(twin.ledger().Fields()) {
				t.Fatalf("%v: %s:\nreply %+v\nwas    %q\ntwin   %q %q\nserver %q %q", a, describe(step), want, was,
					twin.head(), twin.ledger().Fields(), head, ledger)
			}
		}
		for _, ms := range server.lives() {
			if ms <= 0 || ms > milliseconds(12*MaxWindow+MaxFill+keep) {
				t.Fatalf("%v: a key lives %d ms", a, ms)
			}
		}
		if got, err := server.standings(s.node); err != nil || !reflect.DeepEqual(got, twin.Ledger(s.node)) {
			t.Fatalf("%v: standings: %v\ntwin   %+v\nserver %+v", a, err, twin.Ledger(s.node), got)
		}
	}
}

func TestPackedAgreesWithMiniredis(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	endpoint := NewEndpoint(miniClient(t, m))
	rapid.Check(t, func(t *rapid.T) { // it is slow: one algorithm at a time, where a real server plays all
		m.FlushAll()
		a := rapid.SampledFrom(allAlgorithms[:]).Draw(t, "algorithm")
		agreePacked(t, a, newTwin(a).(packedTwin),
			emulated{server: m, endpoint: endpoint, ref: a.Keys("", "t", "limit")})
	})
}

func TestPackedAgreesWithRedis(t *testing.T) {
	t.Parallel()
	client := redistest.Standalone(t).Client(t)
	run := 0
	for _, a := range allAlgorithms {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				run++
				uptime := rapid.SampledFrom([]int64{0, 1, 30, 1_000_000_000}).Draw(t, "uptime")
				twin := newTwin(a).(packedTwin)
				twin.runFor(time.Duration(uptime) * time.Second)
				ref := a.Keys("", strconv.Itoa(run), "limit") // with a mark of its own
				agreePacked(t, a, twin, clocked{client: client, uptime: uptime, ref: ref})
				client.Do(context.Background(), client.B().Del().Key(ref.head, ref.Ledger()).Build())
			})
		})
	}
	if run > 100 && pacedTakes.Load() == 0 { // of fewer plays it may be that none has such a take
		t.Error("no take was paced")
	}
}

func FuzzTakeSequence(f *testing.F) {
	m := miniredis.RunT(f)
	endpoint := NewEndpoint(miniClient(f, m))
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		m.FlushAll()
		a := rapid.SampledFrom(allAlgorithms).Draw(t, "algorithm")
		agreePacked(t, a, newTwin(a).(packedTwin),
			emulated{server: m, endpoint: endpoint, ref: a.Keys("", "t", "limit")})
	}))
}
