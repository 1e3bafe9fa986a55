package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/history"
)

// Of 12 permits a worker that polls asks for 9 a window, one that waits wants 100, and one wants 2:
// parts are 5, 5 and 2.
func TestParts(t *testing.T) {
	phases := []phase{{limit: 12, done: 0, until: 4500 * ms}, {limit: 12, done: 5000 * ms, until: 7500 * ms}}
	every := func(n int64) []history.Op { return ops(n, 100, 1100, 2100, 3100, 4100, 5100, 6100, 7100) }
	workers := []account{
		{name: "polls", asked: every(9), got: every(5)},
		{name: "waits", want: 100, patient: true, got: every(4)},
		{name: "little", asked: every(2), got: every(2)},
	}
	got := parts(time.Second, phases, workers)
	want := []part{{"polls", 18, 10, 10}, {"waits", 200, 10, 8}, {"little", 4, 4, 4}} // windows 2-3 and 3-4
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
	text := partTable(got, time.Millisecond)
	for _, says := range []string{"worker      wanted    entitled         got\n",
		"waits          200          10           8   80.0 %\n", "Jain's index of got/entitled 0.990",
		"the least has 80.0 % of its part:\nonly 91.6 % of what workers are entitled to is in use, so that this says " +
			"little;\n" +
			"the processors were not the cause: the view came at most 1ms late\n"} {
		if !strings.Contains(text, says) {
			t.Errorf("does not say %q:\n%s", says, text)
		}
	}
	workers[1].got = every(5)
	text = partTable(parts(time.Second, phases, workers), 0)
	if !strings.Contains(text, "the least has 100.0 % of its part: fair\n") {
		t.Errorf("got\n%s", text)
	}
}

func TestVerdictOnADivision(t *testing.T) {
	for _, c := range []struct {
		got  [2]int64
		says string
	}{{[2]int64{100, 99}, ": fair"}, {[2]int64{107, 92}, "less fair than promised"},
		{[2]int64{97, 97}, "says little"}, {[2]int64{102, 96}, ": fair"}, {[2]int64{105, 94}, "less fair"}} {
		d := divisionOf([]part{{got: c.got[0], entitled: 100}, {got: c.got[1], entitled: 100}})
		for late, why := range map[time.Duration]string{time.Millisecond: "not the cause",
			120 * time.Millisecond: "busy: the view came up to 120ms late"} {
			got := d.verdict(late)
			if !strings.Contains(got, c.says) || c.says != ": fair" && !strings.Contains(got, why) {
				t.Errorf("of %v: %q, want %q", c.got, got, c.says)
			}
			for line := range strings.SplitSeq(got, "\n") {
				if len(line) > 80 {
					t.Errorf("a line of %d columns: %s", len(line), line)
				}
			}
		}
	}
}

// In a window that is shorter than a worker's turn parts are fractions of permits: they are judged
// over many windows.
func TestPartsInShortWindows(t *testing.T) {
	var got []history.Op
	for at := int64(0); at < 1000; at += 2 {
		got = append(got, ops(1, at)...)
	}
	all := parts(time.Millisecond, []phase{{limit: 10, until: 1000 * ms}},
		[]account{{name: "little", want: 0.5, patient: true, got: got}, {name: "much", want: 40, patient: true}})
	if len(all) != 2 || all[0].ratio() < 0.9 || all[0].ratio() > 1.1 {
		t.Errorf("%+v", all)
	}
	if text := partTable([]part{{name: "a", got: 344}, {name: "b", entitled: 10, got: 10}}, 0); strings.Contains(text,
		"34400") {
		t.Errorf("a part of nothing:\n%s", text)
	}
}

func TestPartsOfAShortDemo(t *testing.T) {
	short := []phase{{limit: 12, until: 2900 * ms}}
	if got := parts(time.Second, short, []account{{name: "a", want: 1}}); got != nil ||
		!strings.Contains(partTable(got, 0), "too short to judge") {
		t.Errorf("got %+v", got)
	}
}

// Nobody waits for more than a shard lets its part have at once, or the demo would show gaps.
func TestBatchesFitIntoBuckets(t *testing.T) {
	for _, c := range []struct {
		want    float64
		batch   int64
		permits int64
		how     string
	}{{622, 11, 10, "WaitN(10)"}, {622, 4, 4, "WaitN(4)"}, {20, 11, 1, "Wait"}} {
		if w := newWorker(1, c.want, c.batch); w.permits != c.permits || w.how != c.how ||
			w.interval != time.Duration(float64(c.permits)/c.want*float64(time.Second)) {
			t.Errorf("one that wants %v and may take %d: %d permits every %s by %s", c.want, c.batch,
				w.permits, w.interval, w.how)
		}
	}
}
