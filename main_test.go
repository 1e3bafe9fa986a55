package shardlimit_test

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// TestMain has more tests run side by side than there are processors, unless -parallel says how
// many: those that may do so wait for windows and round trips most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
