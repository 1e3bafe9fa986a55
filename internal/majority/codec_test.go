package majority

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func FuzzDecodePlace(f *testing.F) {
	for _, p := range []Place{{}, {Promised: Ballot{1, 2}, Run: "r", Mark: "r/1"},
		{Run: "r", Mark: "r/1", Votes: true, Promised: Ballot{3, 1}, Accepted: Ballot{2, MaxNumber}, Value: "\x00v",
			At: 7}} {
		s, err := p.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := DecodePlace(s)
		if err != nil {
			return
		}
		again, err := p.Encode()
		if err != nil || again != s {
			t.Fatalf("%q became %q (%v)", s, again, err)
		}
	})
}

func FuzzDecodeMembership(f *testing.F) {
	m, err := NewMembership(1, []string{"a", "b", "c"}, "a", "b", "c", "d")
	for _, change := range []func(Membership, string, time.Duration) (Membership, error){
		Membership.PutOut, Membership.Add} {
		s, encodeErr := m.Encode()
		if err != nil || encodeErr != nil {
			f.Fatal(err, encodeErr)
		}
		f.Add(s)
		m, err = change(m, "b", 1500*time.Microsecond)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := DecodeMembership(s)
		if err != nil {
			return
		}
		text, err := m.Encode()
		if err != nil {
			t.Fatalf("%+v cannot be stored: %v", m, err)
		}
		if again, err := DecodeMembership(text); err != nil || again.Generation != m.Generation ||
			len(again.Nodes) != len(m.Nodes) {
			t.Fatalf("%q became %+v (%v)", text, again, err)
		}
	})
}

func TestWhatCannotBeHeldIsRefused(t *testing.T) {
	one := Ballot{1, 1}
	for name, p := range map[string]Place{
		"accepted above its promise": {Run: "r", Mark: "m", Votes: true, Accepted: one, Value: "v"},
		"votes without a value":      {Run: "r", Mark: "m", Votes: true, Promised: one},
		"a round without a proposer": {Run: "r", Mark: "m", Promised: Ballot{Round: 1}},
		"a ballot too great":         {Run: "r", Mark: "m", Promised: Ballot{MaxNumber + 1, 1}},
		"a value too long": {Run: "r", Mark: "m", Promised: one, Accepted: one,
			Value: strings.Repeat("x", MaxValue+1)},
		"a mark without a run": {Mark: "m", Promised: one},
		"a time below 0":       {At: -1},
	} {
		if s, err := p.Encode(); !errors.Is(err, ErrStored) {
			t.Errorf("%s: stored as %q (%v)", name, s, err)
		}
	}
	for _, s := range []string{"", "M2", `{"v":2,"generation":1,"places":["a"],"nodes":[{"name":"a","since":1}]}`,
		`{"v":1,"generation":1,"places":["a"],"nodes":[{"name":"a","since":1}],"more":1}`,
		`{"v":1,"generation":1,"places":["a"],"nodes":[{"name":"a","since":1}]} {}`,
		`{"v":1,"generation":1,"places":["b"],"nodes":[{"name":"a","since":1}]}`,
		`{"v":1,"generation":1,"places":["a"],"nodes":[{"name":"a","out":true,"since":2}]}`,
		`{"v":1,"generation":1,"places":["a"],"nodes":[{"name":"a","since":1,"out_us":1}]}`} {
		if m, err := DecodeMembership(s); !errors.Is(err, ErrStored) {
			t.Errorf("%q became %+v (%v)", s, m, err)
		}
		if p, err := DecodePlace(s); !errors.Is(err, ErrStored) {
			t.Errorf("%q became %+v (%v)", s, p, err)
		}
	}
	if _, err := DecodeMembership(`{"v":1,"generation":1,"places":["a"],"nodes":[{"name":"a","since":1}]}`); err != nil {
		t.Error(err)
	}
}
