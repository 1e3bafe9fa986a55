package shardlimit_test

import "testing"

// TestBatchesGoWhereTheyCanBePaid: of two kinds of workers on four shards, those that wait for
// twenty permits at once have about their part, although no shard's credit pays for twenty at once.
func TestBatchesGoWhereTheyCanBePaid(t *testing.T) {
	r := batches(20, 1).play(t, 4, 0)
	if t.Log(r); r.Least < 0.81 || r.Jain < 0.98 || r.Use < 0.93 {
		t.Errorf("the least had %.3f of its part, Jain's index is %.4f, %.3f of the limit was used", r.Least, r.Jain,
			r.Use)
	}
}
