package shardlimit_test

import (
	"testing"
	"time"
	_ "time/tzdata" // machines need not have it

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/race"
)

// BeginningAt takes any midnight of a place.
func TestBeginningAt(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	for _, c := range []struct {
		per, offset time.Duration
		at          time.Time
	}{
		{day, 23 * time.Hour, time.Date(2026, time.January, 17, 0, 0, 0, 0, berlin)},
		{day, 22 * time.Hour, time.Date(2026, time.July, 17, 0, 0, 0, 0, berlin)},
		{day, 0, time.Date(1960, time.July, 17, 0, 0, 0, 0, time.UTC)},
		{day, time.Hour, time.Date(1960, time.July, 17, 1, 0, 0, 0, time.UTC)},
		{7 * day, 4 * day, time.Date(2026, time.November, 23, 0, 0, 0, 0, time.UTC)}, // a Monday
		{time.Hour, 15*time.Minute + time.Microsecond, time.Date(2026, 1, 1, 7, 15, 0, 1_999, time.UTC)},
		{0, 0, time.Date(2026, 1, 1, 7, 15, 0, 0, time.UTC)},
	} {
		if got := (shardlimit.Limit{Per: c.per}.BeginningAt(c.at)).Offset; got != c.offset {
			t.Errorf("every %v, at %v: an offset of %v, want %v", c.per, c.at, got, c.offset)
		}
	}
}

// A day of a limit is the day of a place, also when the clocks there change, on the third and on
// the sixth day of this month.
func TestWindowsBeginAtMidnightOfAPlace(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, f fleet) {
		zone := time.FixedZone("winter", 3600)
		midnight := func(day int) time.Time { return time.Date(2000, time.January, day, 0, 0, 0, 0, zone) }
		limit := shardlimit.Limit{Permits: 40, Per: 24 * time.Hour, Algorithm: shardlimit.FixedWindow,
			Shards: 4}.BeginningAt(midnight(1))
		l, other := limiter(t, f.client(t), "l", limit), limiter(t, f.client(t), "l", limit)
		mustGet(t, other, 1)
		if n := all(t, l, 40); n != 39 {
			t.Fatalf("%d permits", n)
		}
		end := 9
		if race.Enabled { // a day takes seconds
			end = 5
		}
		for day := 2; day < end; day++ {
			switch day {
			case 4:
				zone = time.FixedZone("summer", 7200)
			case 7:
				zone = time.FixedZone("winter", 3600)
			}
			if day == 4 || day == 7 { // the day before, in the night
				time.Sleep(3 * time.Hour)
				if err := l.SetLimit(t.Context(), l.Limit().BeginningAt(midnight(day))); err != nil {
					t.Fatal(err)
				}
			}
			if st := peek(t, other); st.Used != 40 || st.ResetAfter != time.Until(midnight(day)) {
				t.Errorf("at %v: %+v; want until %v", time.Now(), st, midnight(day))
			}
			time.Sleep(time.Until(midnight(day)) - 10*time.Millisecond)
			if n := all(t, l, 40); n != 0 {
				t.Errorf("%d permits before %v", n, midnight(day))
			}
			time.Sleep(10 * time.Millisecond)
			if n := all(t, l, 40); n != 40 {
				t.Errorf("%d permits of the day that begins at %v", n, midnight(day))
			}
		}
	})
}

// Whatever edges a limit is given, in whatever order, none of the windows in force holds more than
// it, and what was used in the one under way stays so until that has ended.
func TestMovedWindowsHoldNoMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	onEither(t, func(t *testing.T, f fleet) {
		l := limiter(t, f.client(t), "l", shardlimit.Limit{Permits: 30, Per: 24 * time.Hour,
			Algorithm: shardlimit.FixedWindow, Shards: 3})
		if n := all(t, l, 30); n != 30 {
			t.Fatalf("%d permits", n)
		}
		for _, in := range []time.Duration{time.Hour, 20 * time.Hour, 3 * time.Hour, 23 * time.Hour} {
			edge := time.Now().Add(in).Truncate(time.Millisecond)
			if err := l.SetLimit(t.Context(), l.Limit().BeginningAt(edge)); err != nil {
				t.Fatal(err)
			}
			settled(t, l)
			d, err := l.Allow(t.Context())
			if left := time.Until(edge); err != nil || d.Allowed || d.RetryAfter < left-time.Minute ||
				d.RetryAfter > left+time.Minute {
				t.Errorf("the window ends at %v: %+v, %v", edge, d, err)
			}
			if st := peek(t, l); st.Used != 30 {
				t.Errorf("%d permits are in use", st.Used)
			}
		}
		if err := l.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := all(t, l, 30); n != 30 {
			t.Errorf("%d permits after a reset", n)
		}
		if d, err := l.Allow(t.Context()); err != nil || d.RetryAfter < 22*time.Hour {
			t.Errorf("a reset moved the edge: %+v, %v", d, err)
		}
	})
}

// Keys of a family can have days of different places, and a participant by itself, too.
func TestKeysAndParticipantsHaveTheirOffset(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, f fleet) {
		day := shardlimit.Limit{Permits: 1, Per: 24 * time.Hour, Algorithm: shardlimit.FixedWindow}
		moved := func(hour int) shardlimit.Limit {
			return day.BeginningAt(time.Date(2026, time.May, 1, hour, 0, 0, 0, time.UTC))
		}
		fam := keyed(t, f.client(t), "f", moved(7))
		if err := fam.Limiter("other").SetLimit(t.Context(), moved(21)); err != nil {
			t.Fatal(err)
		}
		alone := moved(5)
		alone.Scope = shardlimit.PerParticipant
		for want, l := range map[time.Duration]*shardlimit.Limiter{7: fam.Limiter("key"), 21: fam.Limiter("other"),
			5: limiter(t, f.client(t), "alone", alone)} {
			mustGet(t, l, 1)
			d, err := l.Allow(t.Context())
			if edge := time.Now().Add(d.RetryAfter); err != nil || d.Allowed ||
				edge.UTC().Hour() != int(want) && edge.Add(time.Second).UTC().Hour() != int(want) {
				t.Errorf("%v: %+v, %v: the window ends at %v", l.Limit(), d, err, edge)
			}
		}
	})
}
