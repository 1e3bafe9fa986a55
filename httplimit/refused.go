package httplimit

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/clock"
)

// period is how long refusals are counted together.
const period = time.Minute

// How many keys are told, and how many in a log.
const (
	shownKeys  = 100
	loggedKeys = 5
)

// RefusedKeys tells which keys of families were refused most in the last whole minute, or in the
// one that has begun if there was no refusal before. It counts 512 keys at most: those that were
// refused least give way to others. As an http.Handler it answers with them in JSON:
//
//	var refused httplimit.RefusedKeys
//	client.OnRefusal(refused.Hear)
//	mux.Handle("GET /v1/denied", admins(&refused)) // keys can be secrets
//
// The zero value is ready for use, and must not be copied. It is safe for concurrent use.
type RefusedKeys struct {
	mu     sync.Mutex
	begin  time.Time // of this period
	now    sketch    // of this period
	former sketch    // of the period before
}

// Hear counts a refusal of a key, for Client.OnRefusal.
func (k *RefusedKeys) Hear(_ context.Context, r shardlimit.Refusal) {
	if r.Key == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turn()
	k.now.add(r.Limiter, r.Key)
}

// turn begins this period if the one before has ended.
func (k *RefusedKeys) turn() {
	n := time.Since(k.begin) / period
	switch {
	case k.begin.IsZero():
		k.begin = time.Now()
	case n > 0:
		k.former = sketch{}
		if n == 1 {
			k.former = k.now
		}
		k.begin, k.now = k.begin.Add(n*period), sketch{}
	}
}

// ServeHTTP answers with JSON, which docs/reference/http-api.md shows.
func (k *RefusedKeys) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	k.mu.Lock()
	k.turn()
	since, keys := k.begin, k.now.top(shownKeys)
	if len(k.former.keys) > 0 {
		since, keys = since.Add(-period), k.former.top(shownKeys)
	}
	k.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(struct { // the client has gone
		Since time.Time    `json:"since"`
		Keys  []refusedKey `json:"keys"`
	}{since.UTC().Truncate(time.Second), keys})
}

// Log writes a line for each minute in which keys were refused, until ctx ends.
func (k *RefusedKeys) Log(ctx context.Context, log *slog.Logger) {
	for {
		k.mu.Lock()
		k.turn()
		end := time.Until(k.begin.Add(period))
		k.mu.Unlock()
		if !clock.Sleep(ctx, end) {
			return
		}
		k.mu.Lock()
		k.turn()
		keys := k.former.top(loggedKeys)
		k.mu.Unlock()
		if len(keys) > 0 {
			log.InfoContext(ctx, "most refused keys", "keys", line(keys))
		}
	}
}

// line is keys with their counts, such as users "ann" 12, users "bob" 3.
func line(keys []refusedKey) string {
	counts := make([]string, len(keys))
	for i, k := range keys {
		counts[i] = fmt.Sprintf("%s %q %d", k.Limiter, k.Key, k.Calls)
	}
	return strings.Join(counts, ", ")
}
