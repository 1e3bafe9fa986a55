package faults

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// lockedBuffer may be written to by many.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) lines(with string) (found []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.buf.String()) {
		if strings.Contains(line, with) {
			found = append(found, line)
		}
	}
	return found
}

// A node falls and comes back twenty times within the time for which what keys had elsewhere
// counts. The keys follow all the same, and are served once that time is over.
func TestKeysFollowANodeThatFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := limittest.BubbledNodes(t, 3)
		fl.Punctual = true
		var log lockedBuffer
		logs := func(c *shardlimit.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }
		client := fl.Client(t, limittest.TakesOver, logs)
		falls, limit := 20, shardlimit.Limit{Permits: 10, Per: time.Hour}
		if race.Enabled { // what the detector can find is in the first
			falls, limit.Per = 3, 10*time.Minute
		}
		users := limittest.Family(t, client, "users", limit)
		key := func(i int) *shardlimit.Limiter { return users.Limiter(fmt.Sprint("user ", i)) }
		call := func(after time.Duration) {
			time.Sleep(after)
			for i := range 3 {
				_, _ = key(i).Allow(t.Context())
			}
		}
		until := func(line string, n int) {
			for begun := time.Now(); len(log.lines(line)) < n; call(2 * time.Second) {
				if time.Since(begun) > 15*time.Minute {
					t.Fatalf("no %d. %q", n, line)
				}
			}
		}
		for n := range falls {
			nodes[0].Down.Store(true)
			until("is put out", n+1)
			nodes[0].Down.Store(false)
			until("is in again", n+1)
		}
		if lost := log.lines("too many arrangements"); len(lost) > 0 {
			t.Errorf("%d times, as: %s", len(lost), lost[0])
		}
		dead := map[int]bool{}
		for end := time.Now().Add(2*limit.Per + 30*time.Second); time.Now().Before(end); {
			call(30 * time.Second)
		}
		for i := range 30 {
			if d, err := users.Limiter(fmt.Sprint("new ", i)).Allow(t.Context()); err != nil || !d.Allowed {
				dead[i] = true
			}
		}
		if len(dead) > 0 {
			t.Errorf("%d of 30 keys are dead two windows after the last return", len(dead))
		}
	})
}
