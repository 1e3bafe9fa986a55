package script

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// A pointer is written by compare-and-set on its text, and tells whether it is of this run.
func TestAPointerIsComparedAndSet(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		endpoint, ref := NewEndpoint(client), PlacesKey("test:", "1")
		expect := func(name string, r PlacesRequest, text string, whole bool) {
			t.Helper()
			got, err := endpoint.Places(t.Context(), ref, r)
			if err != nil || got.Text != text || got.Whole != whole || got.Now == 0 || got.Run == "" {
				t.Errorf("%s: %+v, want %q, %t: %v", name, got, text, whole, err)
			}
		}
		expect("nothing there", PlacesRequest{}, "", false)
		expect("another one there", PlacesRequest{Text: "b", Expect: "a"}, "", false)
		expect("the first", PlacesRequest{Text: "a b", Keep: time.Hour}, "a b", true)
		expect("a read", PlacesRequest{Expect: "a b"}, "a b", true)
		expect("one that expects none", PlacesRequest{Text: "c"}, "a b", true)
		expect("one that expects another", PlacesRequest{Text: "c", Expect: "a"}, "a b", true)
		expect("the next", PlacesRequest{Text: "c\x00\n", Expect: "a b"}, "c\x00\n", true)
		command(t, client, "SET", ref, "before a b")
		expect("of another run", PlacesRequest{}, "a b", false)
		expect("not renewed", PlacesRequest{Text: "a b", Expect: "x"}, "a b", false)
		expect("renewed", PlacesRequest{Text: "a b", Expect: "a b"}, "a b", true)
	})
}

func TestPointerTimeToLive(t *testing.T) {
	c := newClock(t)
	endpoint, ref := NewEndpoint(miniClient(t, c.Miniredis)), PlacesKey("", "t")
	for i, step := range []struct {
		r    PlacesRequest
		want time.Duration
	}{
		{PlacesRequest{Keep: time.Minute}, 0},
		{PlacesRequest{Text: "a", Keep: time.Minute}, time.Minute},
		{PlacesRequest{}, 59 * time.Second},
		{PlacesRequest{Keep: time.Minute}, time.Minute},
		{PlacesRequest{Text: "b", Expect: "x", Keep: time.Hour}, time.Hour},
		{PlacesRequest{Text: "b", Expect: "a"}, 0},
	} {
		c.forward(time.Second)
		if _, err := endpoint.Places(t.Context(), ref, step.r); err != nil || c.TTL(ref) != step.want {
			t.Errorf("step %d: it lives %v, want %v: %v", i, c.TTL(ref), step.want, err)
		}
	}
}

// For how long a server is up is told in whole seconds.
func TestAPointerTellsTheUptime(t *testing.T) {
	sim := newSimulated(30)
	got, err := NewEndpoint(sim.client).Places(t.Context(), PlacesKey("", "t"), PlacesRequest{})
	if err != nil || got.Uptime != 30*time.Second {
		t.Errorf("%+v %v", got, err)
	}
}

func TestAForeignPointerIsTold(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		endpoint, ref := NewEndpoint(client), PlacesKey("test:", "1")
		for _, words := range [][]string{
			{"SET", ref, "x"}, {"SET", ref, ""}, {"SET", ref, " x"}, {"SET", ref, "run "},
			{"HSET", ref, "a", "b"},
		} {
			for _, r := range []PlacesRequest{{}, {Keep: time.Hour}, {Text: "y"}, {Text: "y", Expect: "x"}} {
				foreign(t, client, fmt.Sprintf("%+v", r), words, func() error {
					_, err := endpoint.Places(t.Context(), ref, r)
					return err
				})
			}
		}
	})
}
