package majority

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func five() Membership { return NewMembership(1, "a", "b", "c", "d", "e") }

// putOut puts out a node of nodes whose records are kept by a, b and c.
func putOut(m Membership, name string, held time.Duration) (Membership, error) {
	return m.PutOut(name, held, []string{"a", "b", "c"})
}

func TestNoMoreNodesGoOutThanLeaveAMajorityOfPlaces(t *testing.T) {
	m := five()
	for _, name := range []string{"d", "a", "e"} {
		var err error
		if m, err = putOut(m, name, 0); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if _, err := putOut(m, "b", 0); !errors.Is(err, ErrTooFewPlaces) {
		t.Errorf("two of three places are out: %v", err)
	}
	back, err := m.Add("a", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := putOut(back, "b", 0); err != nil {
		t.Errorf("one of three places would be out: %v", err)
	}
}

// How a node stands after each transition, and what may be asked of it.
func TestANodeGoesOutAndComesBack(t *testing.T) {
	m := five()
	for _, s := range []struct {
		what  string
		do    func(Membership, string, time.Duration) (Membership, error)
		out   bool
		since int64
	}{
		{"put out", putOut, true, 2},
		{"come back", Membership.Add, false, 3},
		{"put out again", putOut, true, 4},
	} {
		before, saved := m, slices.Clone(m.Nodes)
		var err error
		if m, err = s.do(m, "d", time.Second); err != nil {
			t.Fatalf("%s: %v", s.what, err)
		}
		if m.Generation != before.Generation+1 || !slices.Equal(before.Nodes, saved) {
			t.Errorf("%s: generation %d after %d, which is now %+v", s.what, m.Generation, before.Generation, before)
		}
		if n, known := m.Node("d"); !known || n.Out != s.out || n.Since != s.since {
			t.Errorf("%s: %+v", s.what, n)
		}
	}
	if _, err := m.Add("e", 0); !errors.Is(err, ErrStanding) {
		t.Errorf("add of a node that is in: %v", err)
	}
	if _, err := putOut(m, "x", 0); !errors.Is(err, ErrStanding) {
		t.Errorf("an unknown node: %v", err)
	}
}

// For how long a node has been out is the sum of for how long the generations since were held.
func TestHowLongANodeHasBeenOut(t *testing.T) {
	m, err := putOut(five(), "d", time.Hour)
	if err != nil || m.OutFor("d", 0) != 0 || m.OutFor("d", time.Second) != time.Second {
		t.Fatalf("%v (%v)", m.OutFor("d", time.Second), err)
	}
	if m, err = putOut(m, "e", 2*time.Second); err != nil || m.OutFor("d", 3*time.Second) != 5*time.Second ||
		m.OutFor("e", 3*time.Second) != 3*time.Second {
		t.Errorf("%+v (%v)", m, err)
	}
	if m, err = m.Add("d", time.Second); err != nil || m.OutFor("d", time.Hour) != 0 {
		t.Errorf("in again, and out for %v (%v)", m.OutFor("d", time.Hour), err)
	}
}

func TestTerms(t *testing.T) {
	for _, c := range []struct{ confirm, lasts, want time.Duration }{
		{5 * time.Second, 182 * time.Second, 188_870 * time.Millisecond}, // 187 s and 1 %
		{time.Nanosecond, 0, time.Microsecond},
	} {
		if got := GivenUp(c.confirm, c.lasts); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
