package faults

import (
	"errors"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// A server that is full answers: callers read what it said.
func TestAFullNodeIsNotSaidToBeSilent(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 1)
	l := limittest.Limiter(t, fl.Client(t), "l", shardlimit.PerHour(1000))
	if _, err := l.Allow(t.Context()); err != nil {
		t.Fatal(err)
	}
	posts[0].Do(t, "CONFIG", "SET", "maxmemory", "1")
	for range 20 { // with the first the breaker opens
		_, err := l.Allow(t.Context())
		if !errors.Is(err, shardlimit.ErrUnavailable) || !strings.Contains(err.Error(), "OOM command not allowed") {
			t.Fatalf("%v", err)
		}
		if strings.Contains(err.Error(), "does not answer") {
			t.Fatalf("it does answer: %v", err)
		}
	}
}

// A span tells the code of an error, whichever version of a server says it.
func TestTheCodeOfAnError(t *testing.T) {
	for text, want := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'.":                   "OOM",
		"NOREPLICAS Not enough good replicas to write.":                             "NOREPLICAS",
		"ACL failure in script: User u has no permissions to run the 'get' command": "ERR",
		"The user executing the script can't run this command or subcommand":        "ERR",
		"Script attempted to access a non local key in a cluster node":              "ERR",
		"":         "ERR",
		"TRYAGAIN": "TRYAGAIN",
	} {
		if got := telemetry.ErrorCode(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
