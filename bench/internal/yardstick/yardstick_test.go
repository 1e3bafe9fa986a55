package yardstick

import (
	"fmt"
	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// grant is what a log holds.
type grant struct{ at, n int64 }

// TestLog holds the script against a log that remembers every grant. Up to 128
// permits it must be exact; above that it may give permits back later, by no more
// than its resolution, and never earlier.
func TestLog(t *testing.T) {
	s := servertest.Start(t)
	client := s.Admin()
	if err := Load(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	const window = 1_000_000 // us
	random := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ permits, calls, most int64 }{ // calls a window, about, for so many permits at most
		{1, 2, 1}, {7, 4, 7}, {128, 64, 40}, {1000, 500, 40}, {1000, 1200, 1},
	} {
		permits := c.permits
		log := New(fmt.Sprintf("test-%d-%d", permits, c.calls), permits, time.Second)
		late := int64(0)
		if permits > 128 {
			late = window / 128
		}
		var grants []grant
		now := int64(1_700_000_000_000_000)
		for i := range 3000 {
			// Mostly dense, sometimes a pause of up to two windows.
			now += random.Int64N(2 * window / c.calls)
			if i%500 == 499 {
				now += random.Int64N(2 * window)
			}
			n := 1 + random.Int64N(min(permits, 1+random.Int64N(c.most)))
			reply, err := client.Do(t.Context(), log.takeAt(client, n, strconv.FormatInt(now, 10))).AsIntSlice()
			if err != nil {
				t.Fatal(err)
			}
			sure, possible := permits-held(grants, now-window-late), permits-held(grants, now-window)
			switch granted := reply[2]; {
			case granted == n && n > possible:
				t.Fatalf("%d permits: call %d: %d granted, only %d are free", permits, i, n, possible)
			case granted == 0 && n <= sure:
				t.Fatalf("%d permits: call %d: %d denied, %d are free", permits, i, n, sure)
			case granted != 0 && granted != n:
				t.Fatalf("%d permits: call %d: %d of %d granted", permits, i, granted, n)
			case granted == n:
				grants = append(grants, grant{now, n})
			}
		}
	}
}

// held is how many permits were granted after an instant.
func held(grants []grant, after int64) (sum int64) {
	for i := len(grants) - 1; i >= 0 && grants[i].at > after; i-- {
		sum += grants[i].n
	}
	return sum
}
