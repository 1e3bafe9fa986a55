package chance

import "testing"

func TestSeed(t *testing.T) {
	draw := func(seed uint64) (drawn [8]uint64) {
		defer Seed(seed)()
		for i := range drawn {
			drawn[i] = N(uint64(1000)) + Uint64()
		}
		return drawn
	}
	first, again, other := draw(1), draw(1), draw(2)
	if first != again || first == other {
		t.Error("a seed does not decide what is drawn")
	}
}
