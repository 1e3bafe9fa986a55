package majority

import (
	"errors"
	"testing"
	"time"
)

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
	for _, s := range []string{"", "M2", `{"v":2,"generation":1,"places":["a"],"nodes":[{"name":"a","since":1}]}`,
		`{"v":1,"generation":1,"places":["a"],"nodes":[{"name":"a","since":1}],"more":1}`,
		`{"v":1,"generation":1,"places":["a"],"nodes":[{"name":"a","since":1}]} {}`,
		`{"v":1,"generation":1,"places":["b"],"nodes":[{"name":"a","since":1}]}`,
		`{"v":1,"generation":1,"places":["a"],"nodes":[{"name":"a","out":true,"since":2}]}`,
		`{"v":1,"generation":1,"places":["a"],"nodes":[{"name":"a","since":1,"out_ns":1}]}`} {
		if m, err := DecodeMembership(s); !errors.Is(err, ErrStored) {
			t.Errorf("%q became %+v (%v)", s, m, err)
		}
	}
	if _, err := DecodeMembership(`{"v":1,"generation":1,"places":["a"],"nodes":[{"name":"a","since":1}]}`); err != nil {
		t.Error(err)
	}
}
