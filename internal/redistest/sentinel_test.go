//go:build unix

package redistest

import "testing"

func TestSentinel(t *testing.T) {
	s := NewSentinel(t, 2)
	first := s.Master()
	client := s.Client(t)
	set(t, client, "key", "value")
	s.AwaitReplicated() // a linked replica may wait up to a second for its first bytes
	s.Failover()
	second := s.Master()
	if second == first {
		t.Fatalf("%s is still the master", first.Addr())
	}
	if got := get(t, s.Client(t), "key"); got != "value" {
		t.Errorf("after Failover the key is %q", got)
	}
	second.Kill()
	s.AwaitFailover(second)
	if third := s.Master(); third == second {
		t.Errorf("%s is dead and still the master", second.Addr())
	}
	if err := ping(t.Context(), s.Client(t)); err != nil {
		t.Errorf("after AwaitFailover: %v", err)
	}
}
