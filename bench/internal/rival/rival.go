// Package rival gives every limiter that is measured the same face. Each is used as its own
// documentation shows, with the defaults of its client.
package rival

import (
	"context"
	"time"
)

// Limit is Permits per Per, in whole seconds (some rivals know no less).
type Limit struct {
	Permits int64
	Per     time.Duration
}

// Allow asks for one permit.
type Allow = func(ctx context.Context) (bool, error)

// AllowKey asks for one permit of a key.
type AllowKey = func(ctx context.Context, key string) (bool, error)

// Handle is a rival connected to a server.
type Handle struct {
	// Limiter returns the decision function of the limit with this name.
	Limiter func(ctx context.Context, name string) (Allow, error)
	// Keys returns that of a limit which holds for each key by itself.
	Keys  func(ctx context.Context, name string) (AllowKey, error)
	Close func()
}

// Rival is a limiter that can be measured.
type Rival struct {
	Name      string // short, for legends
	Module    string // path of the Go module it comes from; "" is this one
	Clustered bool   // Open can be given the addresses of a cluster, with a comma between
	Needs     string // a command that not every server has; "": none
	Keyless   bool   // Handle has no Keys
	// Open connects to the server at addr for limits of this size.
	Open func(ctx context.Context, addr string, limit Limit) (Handle, error)
}

// All lists every rival, ours first.
func All() []Rival {
	return []Rival{Shardlimit, scriptRival, gcra, increx, redisRate, rueidisLimiter, ulule, goZero}
}

// byName is a handle of a rival that knows limits by nothing but their names: each key is one.
func byName(allow AllowKey, end func()) Handle {
	return Handle{
		Limiter: func(_ context.Context, name string) (Allow, error) {
			return func(ctx context.Context) (bool, error) { return allow(ctx, name) }, nil
		},
		Keys:  func(context.Context, string) (AllowKey, error) { return allow, nil },
		Close: end,
	}
}
