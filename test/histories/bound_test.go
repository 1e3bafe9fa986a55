package histories

import (
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// fills is how long it takes until an empty bucket is full.
func fills(l shardlimit.Limit) time.Duration {
	return time.Duration(float64(limittest.MostAtOnce(l))/float64(l.Permits)*float64(l.Per)) + time.Millisecond
}
