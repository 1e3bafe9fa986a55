// Package rival gives every limiter that is measured the same face: one small
// adapter a file. Each is used as its own documentation shows, with the
// defaults of its client.
package rival

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limit is Permits per Per, in whole seconds (some rivals know no less).
type Limit struct {
	Permits int64
	Per     time.Duration
}

// Allow asks for one permit.
type Allow func(ctx context.Context) (bool, error)

// AllowKey asks for one permit of a key.
type AllowKey func(ctx context.Context, key string) (bool, error)

// Handle is a rival connected to one server.
type Handle interface {
	// Limiter returns the decision function of the limit with this name.
	Limiter(ctx context.Context, name string) (Allow, error)
	Close()
}

// Keys returns the decision function of a limit that holds for each key by itself; nil if the rival
// has none.
func Keys(ctx context.Context, h Handle, name string) (AllowKey, error) {
	if own, ok := h.(handle); ok && own.keys != nil {
		return own.keys(ctx, name)
	}
	return nil, nil
}

// Rival is a limiter that can be measured.
type Rival struct {
	Name      string // short, for flags and legends
	Module    string // path of the Go module it comes from; "" is this one
	Algorithm string
	Local     bool // never asks a server
	Clustered bool // Open can be given the addresses of a cluster, with a comma between
	// Open connects to the server at addr for limits of this size.
	Open func(ctx context.Context, addr string, limit Limit) (Handle, error)
}

// All lists every rival, ours first.
func All() []Rival {
	return []Rival{
		Shardlimit, scriptRival,
		redisRate, rueidisLimiter, ulule, goZero, throttledRival,
		xTime, roundRobin,
	}
}

// Lineup is who takes part in a scenario.
type Lineup struct {
	Rivals []Rival // of All
	// Those that are no functions which answer at once in this process. Scenarios
	// that have no place for them leave them out.
	Uber, Redisson bool
}

// Has reports whether one of the rivals has this name.
func (l Lineup) Has(name string) bool {
	return slices.ContainsFunc(l.Rivals, func(r Rival) bool { return r.Name == name })
}

// Everybody is every rival there is.
func Everybody() Lineup { return Lineup{Rivals: All(), Uber: true, Redisson: true} }

// Named picks rivals by name, separated by commas; "" is all of them.
func Named(names string) (Lineup, error) {
	if names == "" {
		return Everybody(), nil
	}
	var picked Lineup
	all := All()
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(all, func(r Rival) bool { return r.Name == name })
		switch {
		case i >= 0:
			picked.Rivals = append(picked.Rivals, all[i])
		case name == Uber.Name:
			picked.Uber = true
		case name == RedissonName:
			picked.Redisson = true
		default:
			return Lineup{},
				fmt.Errorf("no rival is named %q; there are %s, %s and %s", name, strings.Join(namesOf(all), ", "),
					Uber.Name, RedissonName)
		}
	}
	return picked, nil
}

func namesOf(rivals []Rival) []string {
	names := make([]string, len(rivals))
	for i, r := range rivals {
		names[i] = r.Name
	}
	return names
}

// handle is a Handle made of two functions.
type handle struct {
	limiter func(ctx context.Context, name string) (Allow, error)
	keys    func(ctx context.Context, name string) (AllowKey, error) // nil: it has none
	close   func()
}

// byName is a handle of a rival that knows limits by nothing but their names: each key is one.
func byName(allow AllowKey, end func()) handle {
	return handle{
		limiter: func(_ context.Context, name string) (Allow, error) {
			return func(ctx context.Context) (bool, error) { return allow(ctx, name) }, nil
		},
		keys:  func(context.Context, string) (AllowKey, error) { return allow, nil },
		close: end,
	}
}

func (h handle) Limiter(ctx context.Context, name string) (Allow, error) { return h.limiter(ctx, name) }
func (h handle) Close()                                                  { h.close() }
