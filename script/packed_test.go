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
	clone() packedTwin
}

func (m *packed[S, R]) clone() packedTwin {
	other := *m
	other.fair.ledger = m.fair.ledger.Clone()
	if own, shares := any(&other.own).(interface{ detach() }); shares {
		own.detach()
	}
	return &other
}

// Ledger lists the participants, as [Endpoint.Ledger] does.
func (m *packed[S, R]) Ledger(now int64) LedgerReply {
	if !m.present(now) {
		return LedgerReply{}
	}
	v := m.look(now)
	b := LedgerReply{Status: OK, Contended: v.fair.contended > 0 && v.fair.contended+2*v.window > v.now}
	if b.Contended {
		var err error
		if b.Standings, err = fairness.Standings(v.fair.ledger.Fields(), v.term()); err != nil {
			panic(err) // whatever is used and reported, the scripts can read what they wrote
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

// agreePacked runs one generated sequence on twin and server and compares every reply, and every
// byte that is stored.
func agreePacked(t *rapid.T, twin packedTwin, server timed, expires bool) {
	a := server.ref.algorithm
	s := newStage(t, a)
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		for _, step := range s.steps() {
			was := twin.head()
			want, got, err := s.play(step, twin, server)
			head, ledger := server.stored()
			if err != nil || !reflect.DeepEqual(want, got) || head != twin.head() ||
				ledger != fmt.Sprint(twin.ledger().Fields()) {
				t.Fatalf("%v: %s: %v\ntwin   %+v\nserver %+v\nwas    %q\ntwin   %q %q\nserver %q %q", a, step, err,
					want, got, was, twin.head(), twin.ledger().Fields(), head, ledger)
			}
		}
		for _, ms := range lives(server.endpoint.client, server.ref) {
			if expires && (ms <= 0 || ms > milliseconds(12*MaxWindow+MaxFill+keep)) {
				t.Fatalf("%v: a key lives %d ms", a, ms)
			}
		}
		got, err := server.endpoint.Ledger(server.at(s.node), server.ref)
		if err != nil || !reflect.DeepEqual(got, twin.Ledger(s.node)) {
			t.Fatalf("%v: standings: %v\ntwin   %+v\nserver %+v", a, err, twin.Ledger(s.node), got)
		}
	}
}

// agreeOnMiniredis is slow. So it plays one algorithm at a time, where a real server plays all.
func agreeOnMiniredis(tb testing.TB) func(*rapid.T) {
	m := miniredis.RunT(tb)
	endpoint := NewEndpoint(miniClient(tb, m))
	return func(t *rapid.T) {
		m.FlushAll()
		a := rapid.SampledFrom(allAlgorithms).Draw(t, "algorithm")
		agreePacked(t, newTwin(a).(packedTwin), timed{m, endpoint, a.Keys("", "t", "limit")}, true)
	}
}

func TestPackedAgreesWithMiniredis(t *testing.T) {
	t.Parallel()
	rapid.Check(t, agreeOnMiniredis(t))
}

func FuzzTakeSequence(f *testing.F) { f.Fuzz(rapid.MakeFuzz(agreeOnMiniredis(f))) }

func TestPackedAgreesWithRedis(t *testing.T) {
	t.Parallel()
	client := redistest.Standalone(t).Client(t)
	run := 0
	for _, a := range allAlgorithms {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				run++
				uptime := rapid.SampledFrom(ages).Draw(t, "uptime")
				twin := newTwin(a).(packedTwin)
				twin.runFor(time.Duration(uptime) * time.Second)
				ref := a.Keys("", strconv.Itoa(run), "limit") // with a mark of its own
				agreePacked(t, twin, onClocked(client, uptime, ref), true)
				client.Do(context.Background(), client.B().Del().Key(ref.head, ref.Ledger()).Build())
			})
		})
	}
	if run > 100 && pacedTakes.Load() == 0 { // of fewer plays it may be that none has such a take
		t.Error("no take was paced")
	}
}
