package rival

import (
	"context"
	"sync"

	"golang.org/x/time/rate"
)

// xTime is the ceiling: what a decision costs that asks nobody.
var xTime = Rival{
	Name:      "x/time/rate",
	Module:    "golang.org/x/time",
	Algorithm: "token bucket in this process, the ceiling",
	Local:     true,
	Open: func(_ context.Context, _ string, limit Limit) (Handle, error) {
		var limiters sync.Map // name -> *rate.Limiter
		perSecond := rate.Limit(float64(limit.Permits) / limit.Per.Seconds())
		return handle{
			limiter: func(_ context.Context, name string) (Allow, error) {
				found, _ := limiters.LoadOrStore(name, rate.NewLimiter(perSecond, int(limit.Permits)))
				limiter := found.(*rate.Limiter)
				return func(context.Context) (bool, error) { return limiter.Allow(), nil }, nil
			},
			close: func() {},
		}, nil
	},
}
