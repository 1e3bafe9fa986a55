package history_test

import (
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/history"
)

func Example() {
	var record history.Recorder
	tally := record.Tally() // one for each goroutine
	for range 3 {
		start := history.Now()
		granted := int64(1) // by the limiter under test
		tally.Add(start, history.Now(), granted)
	}
	worst, ok := history.Check(time.Hour, 2, record.Ops())
	fmt.Println(ok, worst.Permits)
	// Output: false 3
}
