package main

import (
	"errors"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/pace"
	"github.com/shardlimit/shardlimit/embedded"
)

func TestGate(t *testing.T) {
	servers, err := embedded.Start(2)
	if err != nil {
		t.Fatal(err)
	}
	defer servers.Close()
	client, err := shardlimit.New(shardlimit.Config{Nodes: servers.Nodes(), CallTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	limiter, err := client.Limiter(t.Context(), "gate", shardlimit.PerHour(10))
	if err != nil {
		t.Fatal(err)
	}
	g := gate{limiter}
	var granted int64
	var last pace.Grant
	for {
		grant, err := g.Take(t.Context(), 4)
		if err != nil {
			t.Fatal(err)
		}
		if grant.Limit != 10 || grant.Per != time.Hour || grant.Permits > 4 {
			t.Fatalf("grant %+v", grant)
		}
		if grant.Permits == 0 {
			if grant.RetryAfter <= 0 || grant.RetryAfter > time.Hour {
				t.Errorf("denied: %+v", grant)
			}
			break
		}
		granted, last = granted+grant.Permits, grant
	}
	if granted != 10 {
		t.Errorf("%d permits of 10 were granted", granted)
	}
	last.GiveBack(t.Context())
	state, err := limiter.Peek(t.Context())
	if err != nil || state.Used != 10-last.Permits {
		t.Errorf("after %d were given back, %d are in use, %v", last.Permits, state.Used, err)
	}
	for i := range servers.Len() {
		if err := servers.Stop(i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Take(t.Context(), 1); err == nil || errors.Is(err, pace.ErrGateClosed) {
		t.Errorf("without nodes: %v; they can come back", err)
	}
	client.Close()
	if _, err := g.Take(t.Context(), 1); !errors.Is(err, pace.ErrGateClosed) {
		t.Errorf("closed: %v", err)
	}
}
