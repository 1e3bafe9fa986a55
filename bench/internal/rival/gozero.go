package rival

import (
	"context"
	"time"

	"github.com/zeromicro/go-zero/core/limit"
	"github.com/zeromicro/go-zero/core/logx"
	"github.com/zeromicro/go-zero/core/stores/redis"
)

// It prints a line every minute, and some at a signal, in any program that has it
// linked in.
func init() {
	logx.Disable()
	logx.DisableStat()
}

// goZero is its PeriodLimit. Its TokenLimiter goes on locally when the server
// is slow, which would be measured as speed.
var goZero = Rival{
	Name:      "go-zero",
	Module:    "github.com/zeromicro/go-zero",
	Algorithm: "fixed window (PeriodLimit), one script",
	Open: func(_ context.Context, addr string, l Limit) (Handle, error) {
		store, err := redis.NewRedis(redis.RedisConf{Host: addr, Type: redis.NodeType})
		if err != nil {
			return nil, err
		}
		limiter := limit.NewPeriodLimit(int(l.Per/time.Second), int(l.Permits), store, "go-zero:")
		return byName(func(ctx context.Context, key string) (bool, error) {
			code, err := limiter.TakeCtx(ctx, key)
			return code == limit.Allowed || code == limit.HitQuota, err
		}, func() {}), nil // go-zero keeps one client an address for the life of the process
	},
}
