package ledger_test

import (
	"fmt"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/limittest/ledger"
)

// Ann and Bob, who has three times her weight, want more than the 100 permits that a shard grants
// in any second.
func ExampleLedger() {
	const second, tick = 1_000_000, 10_000 // microseconds
	var accounts ledger.Ledger
	callers := []fairness.Caller{{ID: "00000000000000aa", Weight: 1000, Unmet: 5000},
		{ID: "00000000000000bb", Weight: 3000, Unmet: 5000}}
	asks := []fairness.Ask{{Size: 1, Count: 5, Caller: 0}, {Size: 1, Count: 5, Caller: 1}}
	var log [second / tick]int64 // what every tick of the last second was granted
	var got [2]int64
	free := int64(100)
	for i := range 20 * len(log) {
		free += log[i%len(log)]
		term := fairness.Term{Now: int64(i) * tick, Window: second, Share: 100}
		perAsk, _, granted, _ := accounts.Grant(nil, nil, term, free, 0, callers, asks)
		free -= granted
		log[i%len(log)] = granted
		if i >= 10*len(log) {
			got[0], got[1] = got[0]+perAsk[0], got[1]+perAsk[1]
		}
	}
	fmt.Printf("Bob got about %.0f times what Ann did\n", float64(got[1])/float64(got[0]))
	// Output: Bob got about 3 times what Ann did
}
