package migrate

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/shardlimit/shardlimit"
)

// ordersByRedisRate lets each user order ten times a minute, with redis_rate.
func ordersByRedisRate(limiter *redis_rate.Limiter, order http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		result, err := limiter.Allow(r.Context(), r.Header.Get("X-User"), redis_rate.PerMinute(10))
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case result.Allowed == 0:
			refuse(w, result.RetryAfter)
		default:
			order(w, r)
		}
	}
}

// orders is ordersByRedisRate with shardlimit. The family was declared once:
// users, err := client.Family(ctx, "users", shardlimit.PerMinute(10)).
func orders(users *shardlimit.Family, order http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d, err := users.Limiter(r.Header.Get("X-User")).Allow(r.Context())
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case !d.Allowed:
			refuse(w, d.RetryAfter)
		default:
			order(w, r)
		}
	}
}

func refuse(w http.ResponseWriter, after time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	w.WriteHeader(http.StatusTooManyRequests)
}
