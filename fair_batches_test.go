package shardlimit_test

import (
	"testing"

	"github.com/shardlimit/shardlimit/internal/race"
)

// TestBatchesGoWhereTheyCanBePaid: of two kinds of workers on four shards, those that wait for
// twenty permits at once have about their part, although no shard's credit pays for twenty at once.
func TestBatchesGoWhereTheyCanBePaid(t *testing.T) {
	if race.Enabled {
		return // an emulated Redis takes long under it
	}
	r := batches(20, 1).play(t, 4, 0)
	if t.Log(r); r.Least < 0.7 || r.Jain < 0.96 || r.Use < 0.93 {
		t.Errorf("the least had %.3f of its part, Jain's index is %.4f, %.3f of the limit was used", r.Least, r.Jain,
			r.Use)
	}
}

// TestBatchesThatABucketHoldsLeaveNoGaps: where nobody waits for more than a bucket of credit
// holds, a limit over four shards is in use, and unequal workers have most of their parts.
func TestBatchesThatABucketHoldsLeaveNoGaps(t *testing.T) {
	if race.Enabled {
		return // an emulated Redis takes long under it
	}
	p := fleetOf("fleet", 2)
	p.windows = 3
	r := p.play(t, 4, 0)
	if t.Log(r); r.Least < 0.82 || r.Jain < 0.98 || r.Use < 0.965 {
		t.Errorf("the least had %.3f of its part, Jain's index is %.4f, %.3f of the limit was used", r.Least, r.Jain,
			r.Use)
	}
}
