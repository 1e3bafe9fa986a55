package majority

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func five(t *testing.T) Membership {
	t.Helper()
	m, err := NewMembership([]string{"a", "b", "c"}, "a", "b", "c", "d", "e")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestNoMoreNodesGoOutThanLeaveAMajorityOfPlaces(t *testing.T) {
	m := five(t)
	for _, name := range []string{"d", "a", "e"} {
		var err error
		if m, err = m.PutOut(name, 0); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if _, err := m.PutOut("b", 0); !errors.Is(err, ErrTooFewPlaces) {
		t.Errorf("two of three places are out: %v", err)
	}
	back, err := m.ComeBack("a", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := back.PutOut("b", 0); err != nil {
		t.Errorf("one of three places would be out: %v", err)
	}
}

func TestSomeNodeStaysIn(t *testing.T) {
	m, err := NewMembership([]string{"a"}, "a", "b")
	if err == nil {
		m, err = m.PutOut("b", 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Drain("a", 0); !errors.Is(err, ErrTooFewPlaces) {
		t.Errorf("the last node leaves: %v", err)
	}
}

// How a node stands after each transition, and what may be asked of it.
func TestANodeGoesOutAndComesBack(t *testing.T) {
	m := five(t)
	for _, s := range []struct {
		what           string
		do             func(Membership, string, time.Duration) (Membership, error)
		serves, buries bool
		out            time.Duration // when the generation was made, if each before was held for a second
	}{
		{"drain", Membership.Drain, true, false, 0},
		{"put out", Membership.PutOut, false, false, 0},
		{"come back", Membership.ComeBack, false, true, time.Second},
		{"put out again", Membership.PutOut, false, false, 2 * time.Second},
		{"come back again", Membership.ComeBack, false, true, 3 * time.Second},
		{"add", Membership.Add, true, false, 0},
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
		if m.Serves("d") != s.serves || m.Buries("d") != s.buries || m.OutFor("d", 0) != s.out {
			t.Errorf("%s: serves %v, buries %v, out for %v", s.what, m.Serves("d"), m.Buries("d"), m.OutFor("d", 0))
		}
	}
	if m.OutFor("d", time.Hour) != 0 {
		t.Error("a node that is in is out")
	}
	for what, do := range map[string]func(Membership, string, time.Duration) (Membership, error){
		"come back": Membership.ComeBack, "add": Membership.Add, "remove": Membership.Remove} {
		if _, err := do(m, "d", 0); !errors.Is(err, ErrStanding) {
			t.Errorf("%s of a node that is in: %v", what, err)
		}
	}
	if _, err := m.PutOut("x", 0); !errors.Is(err, ErrUnknownNode) {
		t.Errorf("an unknown node: %v", err)
	}
}

func TestAPlaceIsNotRemoved(t *testing.T) {
	for name, want := range map[string]error{"a": ErrStanding, "d": nil} {
		m, err := five(t).Drain(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Remove(name, 0); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTerms(t *testing.T) {
	terms := Terms{Confirm: 5 * time.Second, Window: time.Minute, Lease: 2 * time.Second, Booked: 2 * time.Minute}
	fenced, err := terms.Fenced()
	if err != nil || fenced != 5050*time.Millisecond {
		t.Errorf("fenced after %v (%v)", fenced, err)
	}
	given, err := terms.GivenUp()
	if err != nil || given != 188_870*time.Millisecond { // 187 s and 1 %
		t.Errorf("given up after %v (%v)", given, err)
	}
	if got := drifted(time.Nanosecond); got != time.Microsecond {
		t.Errorf("a nanosecond may take %v", got)
	}
	for _, bad := range []Terms{{}, {Confirm: 1}, {Window: 1}, {Confirm: -1, Window: 1},
		{Confirm: 1, Window: 1, Booked: 3},
		{Confirm: 1, Window: maxTerm + 1}} {
		if _, err := bad.GivenUp(); !errors.Is(err, ErrTerms) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
