package majority

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func five(t *testing.T) Membership {
	t.Helper()
	m, err := NewMembership(1, "a", "b", "c", "d", "e")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// putOut puts out a node of nodes whose records are kept by a, b and c.
func putOut(m Membership, name string, held time.Duration) (Membership, error) {
	return m.PutOut(name, held, []string{"a", "b", "c"})
}

func TestNoMoreNodesGoOutThanLeaveAMajorityOfPlaces(t *testing.T) {
	m := five(t)
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

func TestSomeNodeStaysIn(t *testing.T) {
	m, err := NewMembership(1, "a", "b")
	if err == nil {
		m, err = m.PutOut("b", 0, []string{"a"})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.PutOut("a", 0, []string{"a"}); !errors.Is(err, ErrTooFewPlaces) {
		t.Errorf("the last node goes out: %v", err)
	}
}

// How a node stands after each transition, and what may be asked of it.
func TestANodeGoesOutAndComesBack(t *testing.T) {
	m := five(t)
	for _, s := range []struct {
		what   string
		do     func(Membership, string, time.Duration) (Membership, error)
		serves bool
		since  int64
	}{
		{"put out", putOut, false, 2},
		{"come back", Membership.Add, true, 3},
		{"put out again", putOut, false, 4},
		{"come back again", Membership.Add, true, 5},
	} {
		before := m
		saved := slices.Clone(before.Nodes)
		next, err := s.do(m, "d", time.Second)
		if err != nil {
			t.Fatalf("%s: %v", s.what, err)
		}
		if m = next; m.Generation != before.Generation+1 || !slices.Equal(before.Nodes, saved) {
			t.Errorf("%s: generation %d after %d, which is now %+v", s.what, m.Generation, before.Generation, before)
		}
		n, _ := m.Node("d")
		if m.Serves("d", n.Since) != s.serves || n.Since != s.since || m.Serves("d", n.Since-1) ||
			m.Serves("d", m.Generation+1) {
			t.Errorf("%s: serves %v, %+v", s.what, m.Serves("d", m.Generation), n)
		}
	}
	if m.OutFor("d", time.Hour) != 0 {
		t.Error("a node that is in is out")
	}
	if _, err := m.Add("d", 0); !errors.Is(err, ErrStanding) {
		t.Errorf("add of a node that is in: %v", err)
	}
	if _, err := putOut(m, "x", 0); !errors.Is(err, ErrStanding) {
		t.Errorf("an unknown node: %v", err)
	}
}

// For how long a node has been out is the sum of for how long the generations since were held.
func TestHowLongANodeHasBeenOut(t *testing.T) {
	m, err := putOut(five(t), "d", time.Hour)
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
	if got := GivenUp(5*time.Second, 0); got != 5050*time.Millisecond {
		t.Errorf("fenced after %v", got)
	}
	if got := GivenUp(5*time.Second, 182*time.Second); got != 188_870*time.Millisecond { // 187 s and 1 %
		t.Errorf("given up after %v", got)
	}
	if got := GivenUp(time.Nanosecond, 0); got != time.Microsecond {
		t.Errorf("a nanosecond may take %v", got)
	}
}

// Serves reports whether a process that has confirmed the generation may ask a shard for permits
// that is of the life of a node which began in generation since.
func (m Membership) Serves(name string, since int64) bool {
	n, known := m.Node(name)
	return known && !n.Out && n.Since == since
}
