package httplimit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
)

// period is how long what was refused is told: for at least one, and less than two.
const period = time.Minute

// How many keys of a limit are told, and how many in a log.
const (
	shownKeys  = 20
	loggedKeys = 5
)

// RefusedKeys tells which keys of families were refused most in the last minute or two. It keeps
// 256 limits at most, and 256 keys of each: those that were refused least give way to others. As an
// http.Handler it answers with them in JSON:
//
//	var refused httplimit.RefusedKeys
//	client.OnRefusal(refused.Hear)
//	mux.Handle("GET /v1/denied", admins(&refused)) // keys can be secrets
//
// The zero value is ready for use, and must not be copied. It is safe for concurrent use.
type RefusedKeys struct {
	mu     sync.Mutex
	begin  time.Time          // of this period
	now    map[string]*sketch // of this period, by limit
	former map[string]*sketch // of the period before
}

// Hear counts a refusal of a key, for Client.OnRefusal.
func (k *RefusedKeys) Hear(_ context.Context, r shardlimit.Refusal) {
	if r.Key == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turn()
	s := k.now[r.Limiter]
	if s == nil {
		if len(k.now) == counters {
			delete(k.now, quietest(k.now))
		}
		s = &sketch{}
		k.now[r.Limiter] = s
	}
	s.add(r.Key)
}

// quietest is a limit that was refused least: of several any one, so that the next call of one that
// is refused often finds it there.
func quietest(limits map[string]*sketch) (name string) {
	least := int64(math.MaxInt64)
	for limit, s := range limits {
		if s.calls < least {
			name, least = limit, s.calls
		}
	}
	return name
}

// turn begins this period if the one before has ended.
func (k *RefusedKeys) turn() {
	if k.begin.IsZero() {
		k.begin, k.now = time.Now(), map[string]*sketch{}
		return
	}
	if n := time.Since(k.begin) / period; n > 0 {
		k.former = nil
		if n == 1 {
			k.former = k.now
		}
		k.begin, k.now = k.begin.Add(n*period), map[string]*sketch{}
	}
}

// refusedLimit is what was refused of one limit.
type refusedLimit struct {
	Limiter string       `json:"limiter"`
	Calls   int64        `json:"calls"`
	Keys    []refusedKey `json:"keys"` // the most refused first
}

// ServeHTTP answers with JSON, which docs/reference/http-api.md shows.
func (k *RefusedKeys) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	k.mu.Lock()
	k.turn()
	since := k.begin
	if k.former != nil {
		since = since.Add(-period)
	}
	all := told(k.former, k.now, shownKeys)
	k.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(struct { // the client has gone
		Since    time.Time      `json:"since"`
		Limiters []refusedLimit `json:"limiters"`
	}{since.UTC().Truncate(time.Second), all})
}

// told is what was refused of each limit, in the order of their names.
func told(former, now map[string]*sketch, most int) []refusedLimit {
	all := []refusedLimit{}
	none := &sketch{}
	names := slices.AppendSeq(slices.Collect(maps.Keys(former)), maps.Keys(now))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		a, b := cmp.Or(former[name], none), cmp.Or(now[name], none)
		all = append(all, refusedLimit{Limiter: name, Calls: a.calls + b.calls, Keys: top(a, b, most)})
	}
	return all
}

// Log writes a line a minute for each limit that refused keys, until ctx ends.
func (k *RefusedKeys) Log(ctx context.Context, log *slog.Logger) {
	for {
		k.mu.Lock()
		k.turn()
		end := time.Until(k.begin.Add(period))
		k.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(end):
		}
		k.mu.Lock()
		k.turn()
		all := told(k.former, nil, loggedKeys)
		k.mu.Unlock()
		for _, l := range all {
			log.InfoContext(ctx, "most refused keys", "limiter", l.Limiter, "calls", l.Calls, "keys", line(l.Keys))
		}
	}
}

// line is keys with their counts, such as "ann" 12, "bob" 3.
func line(keys []refusedKey) string {
	counts := make([]string, len(keys))
	for i, k := range keys {
		counts[i] = fmt.Sprintf("%q %d", k.Key, k.Calls)
	}
	return strings.Join(counts, ", ")
}
