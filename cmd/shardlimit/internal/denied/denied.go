// Package denied tells which keys are refused most, in bounded memory.
package denied

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Period is how long what was refused is told: for at least one, and less than two.
const Period = time.Minute

// Shown is how many keys of a limit are told, InLog how many in the log.
const (
	Shown = 20
	InLog = 5
)

// Denied counts refused calls by limit and key. Of each limit it has 256 keys at most. It is safe
// for concurrent use.
type Denied struct {
	mu     sync.Mutex
	since  time.Time          // former began
	now    map[string]*sketch // of this period, by limit
	former map[string]*sketch // of the period before
}

// New returns one whose first period begins at a time.
func New(begin time.Time) *Denied { return &Denied{since: begin, now: map[string]*sketch{}} }

// Hear counts a refusal of a key, for Client.OnRefusal.
func (d *Denied) Hear(_ context.Context, r shardlimit.Refusal) {
	if r.Key == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.now[r.Limiter]
	if s == nil {
		s = &sketch{}
		d.now[r.Limiter] = s
	}
	s.add(r.Key)
}

// Limit is what was refused of one limit.
type Limit struct {
	Limiter string
	Calls   int64
	Keys    []Key // the most refused first
}

// Told returns what was refused of each limit since a time, the limits in the order of their names.
func (d *Denied) Told() (since time.Time, all []Limit) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.since, told(d.former, d.now, Shown)
}

func told(former, now map[string]*sketch, most int) (all []Limit) {
	none := &sketch{}
	for _, name := range names(former, now) {
		a, b := former[name], now[name]
		if a == nil {
			a = none
		}
		if b == nil {
			b = none
		}
		all = append(all, Limit{Limiter: name, Calls: a.calls + b.calls, Keys: top(a, b, most)})
	}
	return all
}

func names(maps ...map[string]*sketch) (all []string) {
	for _, m := range maps {
		for name := range m {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// turn begins a period, and returns what was refused in the one that ends. That began at a time.
func (d *Denied) turn(began time.Time) []Limit {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.former, d.now, d.since = d.now, map[string]*sketch{}, began
	return told(d.former, nil, InLog)
}

// Log writes a line for each limit that refused calls, once a period. It returns when ctx ends.
func (d *Denied) Log(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for began := d.since; ; {
		select {
		case <-ctx.Done():
			return
		case at := <-tick.C:
			for _, l := range d.turn(began) {
				log.Info("most refused keys", "limiter", l.Limiter, "calls", l.Calls, "keys", line(l.Keys))
			}
			began = at
		}
	}
}

// line is keys with their counts, such as "ann" 12, "bob" 3.
func line(keys []Key) string {
	var b strings.Builder
	for i, k := range keys {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q %d", k.Key, k.Count)
	}
	return b.String()
}
