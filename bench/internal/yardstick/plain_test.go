package yardstick

import (
	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
	"testing"
	"time"
)

// TestPlain: it grants what the limit has and no more, and again once the window has passed.
func TestPlain(t *testing.T) {
	s := servertest.Start(t)
	client := s.Admin()
	if err := LoadPlain(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	limit := NewPlain("test", 3)
	for i, want := range []int64{1, 1, 1, 0, 0} {
		reply, err := client.Do(t.Context(), limit.Take(client, time.Hour)).AsIntSlice()
		if err != nil || len(reply) != 2 || reply[0] != want || reply[1] != min(int64(i)+1, 3) {
			t.Errorf("take %d: %v, err %v; want %d granted", i+1, reply, err, want)
		}
	}
	// A window that ends where it begins holds nothing.
	if reply, err := client.Do(t.Context(), limit.Take(client, 0)).AsIntSlice(); err != nil || reply[0] != 1 ||
		reply[1] != 1 {
		t.Errorf("after the window: %v, err %v", reply, err)
	}
	if ttl, err := client.Do(t.Context(), client.B().Pttl().Key(limit.Key()).Build()).AsInt64(); err != nil ||
		ttl <= 0 {
		t.Errorf("the key expires in %d ms, err %v", ttl, err)
	}
}
