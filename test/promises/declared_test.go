package promises

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// The log says once that a stored limit overrules a declaration.
func TestADeclarationThatIsNotInForceSaysSo(t *testing.T) {
	servers := limittest.Standalone(t)
	stored := shardlimit.PerHour(2000)
	first := servers.Client(t)
	limittest.Limiter(t, first, "l", stored)
	limittest.Family(t, first, "f", stored)
	for name, c := range map[string]struct {
		declared shardlimit.Limit
		inForce  bool
	}{
		"the same":       {stored, true},
		"another number": {shardlimit.PerHour(500), false},
		"another algorithm": {shardlimit.Limit{Permits: 2000, Per: time.Hour, Algorithm: shardlimit.FixedWindow},
			false},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			client := servers.Client(t,
				func(cfg *shardlimit.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			for range 2 {
				limittest.Limiter(t, client, "l", c.declared)
				limittest.Family(t, client, "f", c.declared)
			}
			want := 2 // one of the limit, one of the family
			if c.inForce {
				want = 0
			}
			if n := strings.Count(log.String(), "is not in force"); n != want {
				t.Errorf("%d lines in the log, want %d: %s", n, want, log.String())
			}
		})
	}
}
