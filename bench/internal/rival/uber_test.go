package rival

import (
	"testing"
	"time"
)

// TestUberPaces: a limit of which ten permits are due in 10 ms cannot have given
// twenty more in less than 10 ms, however fast they were asked for.
func TestUberPaces(t *testing.T) {
	h, err := Uber.Open(t.Context(), "", Limit{Permits: 1000, Per: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	one, err := h.Limiter(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	same, err := h.Limiter(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 15 { // two handles on a name share its limit
		for _, allow := range []Allow{one, same} {
			if ok, err := allow(t.Context()); err != nil || !ok {
				t.Fatalf("allowed %v, err %v", ok, err)
			}
		}
	}
	// 30 permits less the slack of 10, 1 ms apart.
	if took := time.Since(began); took < 19*time.Millisecond {
		t.Errorf("30 permits of 1000/s in %s", took)
	}
}
