package majority

import (
	"testing"
	"time"
)

func FuzzDecodeMembership(f *testing.F) {
	m, err := NewMembership(1, "a", "b", "c", "d")
	for _, change := range []func(Membership, string, time.Duration) (Membership, error){
		putOut, Membership.Add} {
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
	for _, s := range []string{"", "M2", `{"generation":1,"nodes":[{"name":"a","since":1}]} {}`,
		`{"generation":1,"nodes":[]}`, `{"generation":1,"nodes":[{"name":"a","out":true,"since":1}]}`,
		`{"generation":1,"nodes":[{"name":"a","out":true,"since":2}]}`,
		`{"generation":1,"nodes":[{"name":"a","since":1,"for_ns":1}]}`} {
		if m, err := DecodeMembership(s); err == nil {
			t.Errorf("%q became %+v", s, m)
		}
	}
	if _, err := DecodeMembership(`{"generation":1,"nodes":[{"name":"a","since":1}]}`); err != nil {
		t.Error(err)
	}
}
