package web

import (
	"net/http"
	"testing"
)

// Answers of any length are read to their end, one after the other.
func TestGet(t *testing.T) {
	s, err := Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch key := r.Header.Get(KeyHeader); key {
		case "":
			http.Error(w, "no key", http.StatusBadRequest)
		case "denied":
			http.Error(w, "too many", http.StatusTooManyRequests)
		default:
			_, _ = w.Write([]byte(key))
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := Dial(t.Context(), s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		for key, want := range map[string]int{"a": 200, "denied": 429, "": 400, "another key": 200} {
			if status, err := c.Get(key); status != want || err != nil {
				t.Errorf("%q: %d, %v, want %d", key, status, err, want)
			}
		}
	}
	s.Close()
	if _, err := c.Get("a"); err == nil {
		t.Error("a closed server answers")
	}
}
