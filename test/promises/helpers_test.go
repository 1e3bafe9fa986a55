package promises

import (
	"os"
	"testing"

	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// between is what lies wholly between two instants.
func between(from, to int64, ops []history.Op) (inside []history.Op) {
	for _, op := range limittest.Since(from, ops) {
		if op.End < to {
			inside = append(inside, op)
		}
	}
	return inside
}

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }
