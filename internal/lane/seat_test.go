package lane

import (
	"testing"
	"time"
)

// What credit cannot pay is known for as many permits or more, up to when it can, and for no more
// than a quarter of a window.
func TestASeatRemembersForAWhileWhatItsCreditCannotPay(t *testing.T) {
	l := grounded(t)
	l.Terms.Store(&Terms{Window: time.Second})
	s := l.Limit.(*quietLimit).own
	at := func(ms int64) int64 { return ms * int64(time.Millisecond) }
	s.Owe(10, at(5000), at(1000))
	for _, c := range []struct {
		what           string
		n, instant, ms int64
		owes           bool
	}{
		{"as many", 10, 2000, 1100, true},
		{"more", 11, 2000, 1100, true},
		{"fewer", 9, 2000, 1100, false},
		{"when credit pays", 10, 5000, 1100, false},
		{"after a quarter of a window", 10, 2000, 1250, false},
	} {
		until, owes := s.Owes(c.n, at(c.instant), at(c.ms))
		if owes != c.owes || owes && until != at(5000) {
			t.Errorf("%s: %v until %d", c.what, owes, until)
		}
	}
	s.Open()
	if _, owes := s.Owes(10, at(2000), at(1100)); owes {
		t.Error("it is known although what was heard was forgotten")
	}
}
