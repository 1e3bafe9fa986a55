package migrate

import (
	"context"
	"time"

	"github.com/shardlimit/shardlimit"
)

// tenAMinute is the bucket of Bucket4jOrders.
var tenAMinute = shardlimit.Limit{Algorithm: shardlimit.TokenBucket, Permits: 10, Per: time.Minute}

// retryAfter is Bucket4jOrders of testdata with shardlimit: it orders, or says when to come again.
// The family was declared once: users, err := client.Family(ctx, "users", tenAMinute).
func retryAfter(ctx context.Context, users *shardlimit.Family, user string, order func()) (time.Duration, error) {
	d, err := users.Limiter(user).Allow(ctx)
	if err == nil && d.Allowed {
		order()
	}
	return d.RetryAfter, err
}
