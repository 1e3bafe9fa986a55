package memory

import (
	"testing"

	"pgregory.net/rapid"
)

// Sum is the permits of all reservations that were added, and are neither cancelled nor due.
func TestWhatIsReservedIsWhatIsNotDueYet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type reservation struct{ due, n int64 }
		var reserved Reserved[int]
		outstanding := map[int]reservation{}
		now := int64(0)
		for key := range rapid.IntRange(1, 100).Draw(t, "steps") {
			now += rapid.Int64Range(0, 10).Draw(t, "time")
			sum := int64(0)
			for k, r := range outstanding {
				if r.due <= now {
					delete(outstanding, k)
				}
			}
			for _, r := range outstanding {
				sum += r.n
			}
			if got := reserved.Sum(now); got != sum {
				t.Fatalf("%d are reserved, not %d", got, sum)
			}
			n, most := rapid.Int64Range(1, 10).Draw(t, "n"), int64(20)
			if got, want := reserved.Room(now, n, most), len(outstanding) == 0 || sum+n <= most; got != want {
				t.Fatalf("room for %d beside %d: %t", n, sum, got)
			}
			if rapid.Bool().Draw(t, "cancel") {
				for k := range outstanding {
					reserved.Remove(k)
					delete(outstanding, k)
					break
				}
				reserved.Remove(-1) // which is not there
				continue
			}
			r := reservation{now + rapid.Int64Range(1, 50).Draw(t, "due"), n}
			reserved.Add(key, r.due, r.n)
			outstanding[key] = r
		}
	})
}

// A process has a bounded number of reservations.
func TestReservationsAreBoundedInNumber(t *testing.T) {
	var reserved Reserved[int]
	for i := range MostReserved {
		if !reserved.Room(0, 1, 1e9) {
			t.Fatalf("no room for number %d", i)
		}
		reserved.Add(i, 1, 1)
	}
	if reserved.Room(0, 1, 1e9) {
		t.Error("there is room for more")
	}
	if !reserved.Room(1, 1, 1e9) {
		t.Error("there is no room when all are due")
	}
}
