package rival

import (
	"context"
	"sync"

	"go.uber.org/ratelimit"
)

// Uber paces callers in this process: it makes them wait and never denies, so it
// is not one of All, whose limiters answer at once.
var Uber = Rival{
	Name:      "uber/ratelimit",
	Module:    "go.uber.org/ratelimit",
	Algorithm: "leaky bucket in this process, waits instead of denying",
	Local:     true,
	Open: func(_ context.Context, _ string, limit Limit) (Handle, error) {
		var limiters sync.Map // name -> ratelimit.Limiter
		return handle{
			limiter: func(_ context.Context, name string) (Allow, error) {
				found, _ := limiters.LoadOrStore(name, ratelimit.New(int(limit.Permits), ratelimit.Per(limit.Per)))
				limiter := found.(ratelimit.Limiter)
				return func(context.Context) (bool, error) {
					limiter.Take() // it cannot be cancelled
					return true, nil
				}, nil
			},
			close: func() {},
		}, nil
	},
}
