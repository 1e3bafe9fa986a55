package script

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shardlimit/shardlimit/internal/columns"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// slidingTwin is the twin of a sliding log.
type slidingTwin = packed[log[slidingLog], *log[slidingLog]]

// text renders the log as the scripts store it when they write the whole of it.
func (l *log[D]) text() string {
	if len(l.entries) == 0 {
		return columns.Log.Sprint(l.since, l.before, 0, 0, 0, 0, l.before)
	}
	last := len(l.entries) - 1
	text := columns.Log.Sprint(l.since, l.before, 0, last+1, l.entries[0].date, l.entries[last].date,
		l.entries[last].total)
	for _, e := range l.entries[:last] {
		text += columns.Entry.Sprint(e.date, e.total)
	}
	return text
}

func cloned(l *slidingTwin) *slidingTwin {
	twin := *l
	twin.own.entries, twin.fair.ledger = slices.Clone(l.own.entries), l.fair.ledger.Clone()
	return &twin
}

// TestALongLogIsOneString: of a long log takes read and write parts, and come to the same as the
// twin. What has left is dropped in time.
func TestALongLogIsOneString(t *testing.T) {
	m := miniredis.RunT(t)
	endpoint, client := NewEndpoint(miniClient(t, m)), redistest.Standalone(t).Client(t)
	for _, a := range []Algorithm{AlgorithmSlidingLog, AlgorithmSlidingCounter, AlgorithmFixedWindow} {
		for _, share := range []int64{20, 100, 1000} {
			ref := a.Keys("", "t", strconv.FormatInt(share, 10))
			p := terms(t, Terms{Epoch: 1, Target: share, Floor: share, Window: time.Second, Algorithm: a})
			for name, server := range map[string]clockedShard{
				"miniredis": emulated{server: m, endpoint: endpoint, ref: ref},
				"redis":     clocked{client: client, uptime: 1_000_000, ref: ref},
			} {
				longest := longLog(t, a.String()+" on "+name, NewTwin(a).(packedTwin), server, p)
				if a == AlgorithmSlidingLog && share > 20 &&
					longest < columns.Packed.Bytes()+70*columns.Entry.Bytes() ||
					longest > columns.Packed.Bytes()+400*columns.Entry.Bytes() {
					t.Errorf("%v of %d on %s: up to %d bytes", a, share, name, longest)
				}
			}
		}
	}
}

// longLog plays takes, and some settlements and reservations, and returns how long the string came
// to be.
func longLog(t *testing.T, name string, twin packedTwin, server clockedShard, p *Proposal) (longest int) {
	t.Helper()
	random, now, last := rand.New(rand.NewPCG(1, uint64(p.target))), int64(epoch0), int64(0)
	for i := range 1200 {
		gap, size := int64(random.IntN(int(2_000_000/min(p.target, 150)))), int64(1)
		switch random.IntN(60) {
		case 0:
			gap = 300_000 + random.Int64N(500_000)
		case 1, 2:
			size = 1 + random.Int64N(p.target)
		case 3:
			gap = 0
		}
		now += gap
		var want, got any
		var err error
		switch r := ones(p, 1); {
		case i%97 == 96:
			settle := SettleRequest{Back: 1, At: last}
			want = twin.Settle(now, settle)
			got, err = server.settle(now, settle)
		case i%301 == 300:
			book := &ReserveRequest{Proposal: p, Permits: 1 + p.target/2, MaxDelay: time.Second}
			want = twin.Reserve(now, book)
			got, err = server.reserve(now, book)
		default:
			r.Groups[0].Size = size
			take := twin.Take(now, r)
			want, last = take, take.At
			got, err = server.take(now, r)
		}
		if err != nil || !reflect.DeepEqual(want, got) {
			t.Fatalf("%s, step %d: %v\ntwin   %+v\nserver %+v", name, i, err, want, got)
		}
		head, _ := server.stored()
		if head != twin.head() {
			t.Fatalf("%s, step %d: stored\n%q\ntwin\n%q", name, i, head, twin.head())
		}
		longest = max(longest, len(head))
	}
	return longest
}
