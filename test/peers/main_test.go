package peers

import (
	"os"
	"testing"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }
