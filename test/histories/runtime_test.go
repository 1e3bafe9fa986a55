package histories

import (
	"go/build"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

// repeatable are edits of Go's runtime that leave nothing to chance in a bubble of a process with
// one processor. The runtime draws which of the timers that end at one instant goes first, which of
// the cases of a select that are ready, and where the iteration of a map begins. It preempts who
// runs for long, and looks at its second queue whenever it has scheduled 61 times.
//
// Each bubble has sequences of its own for timers and selects. Maps go by the time of the bubble:
// how many are made depends on what pools hold.
var repeatable = map[string][]limittest.Edit{
	"runtime/time.go":   {{"t.rand = cheaprand()", "t.rand = bubbleRandn(0, 1<<32-1)"}},
	"runtime/select.go": {{"cheaprandn(uint32(norder + 1))", "bubbleRandn(1, uint32(norder+1))"}},
	"runtime/proc.go":   {{"const forcePreemptNS = 10 * 1000 * 1000", "const forcePreemptNS = 1 << 60"}},
	"runtime/rand.go": {{"func maps_rand() uint64 {\n",
		"func maps_rand() uint64 {\n\tif bubble := getg().bubble; bubble != nil {\n" +
			"\t\treturn bubbleMix(uint64(bubble.now))\n\t}\n"}},
	"runtime/synctest.go": {
		{"\tactive  int // other sources of activity\n",
			"\tactive  int // other sources of activity\n\tdrawn   [2]uint64\n"},
		{"\t\trunqput(pp, bubble.main, true)\n", "\t\tpp.schedtick = 0\n\t\trunqput(pp, bubble.main, true)\n"},
		{"import (\n", "import (\n\t\"internal/runtime/math\"\n"},
		{"var bubbleGen atomic.Uint64", `func bubbleMix(n uint64) uint64 {
	n += 0xa0761d6478bd642f
	hi, lo := math.Mul64(n, n^0xe7037ed1a0b428db)
	return hi ^ lo
}

func bubbleRandn(which int, n uint32) uint32 {
	bubble := getg().bubble
	if bubble == nil {
		return cheaprandn(n)
	}
	bubble.drawn[which]++
	return uint32(uint64(uint32(bubbleMix(bubble.drawn[which]*0xa0761d6478bd642f))) * uint64(n) >> 32)
}

var bubbleGen atomic.Uint64`},
	},
}

// repeatablePlayer builds the worker that plays each history the same way whenever it is played,
// with all changes of the source, each in force only for a worker that is told so.
func repeatablePlayer(t *testing.T, changes ...limittest.SwitchOff) (binary string) {
	t.Helper()
	changed := map[string]string{}
	for name, edits := range repeatable {
		path := filepath.Join(build.Default.GOROOT, "src", name)
		text, err := os.ReadFile(path)
		limittest.Must(t, err)
		changed[path] = string(text)
		for _, e := range edits {
			if n := strings.Count(changed[path], e[0]); n != 1 {
				t.Fatalf("%s of this Go holds %d times what is edited: %s", name, n, e[0])
			}
			changed[path] = strings.Replace(changed[path], e[0], e[1], 1)
		}
	}
	return limittest.BuildChanged(t, changes, changed)
}
