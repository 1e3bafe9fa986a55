// Package migrate has what the pages of docs/migrate show: small programs with other rate limiters,
// and the same with shardlimit. Tests run both beside each other.
package migrate

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/shardlimit/shardlimit"
)

// crawlByXTime fetches 50 pages a second, and up to ten at once after a rest, in one process.
func crawlByXTime(ctx context.Context, pages []string, fetch func(string)) error {
	limiter := rate.NewLimiter(50, 10)
	for _, page := range pages {
		if err := limiter.Wait(ctx); err != nil {
			return err
		}
		fetch(page)
	}
	return nil
}

// crawl is crawlByXTime with shardlimit: 50 pages a second in all processes together.
func crawl(ctx context.Context, client *shardlimit.Client, pages []string, fetch func(string)) error {
	limiter, err := client.Limiter(ctx, "crawl", shardlimit.Limit{
		Algorithm: shardlimit.TokenBucket, Permits: 50, Per: time.Second, Burst: 10})
	if err != nil {
		return err
	}
	for _, page := range pages {
		if err := limiter.Wait(ctx); err != nil {
			return err
		}
		fetch(page)
	}
	return nil
}
