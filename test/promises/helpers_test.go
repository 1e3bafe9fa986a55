package promises

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// mutant is a Redis client that puts other lines in place of some of the scripts: a limiter that is
// broken on purpose.
type mutant struct {
	rueidis.Client
	lines   *strings.Replacer
	changed atomic.Int64 // calls that ran a changed text

	mu     sync.Mutex
	shas   map[string]string // of the changed text by that of the true one
	unseen map[string]bool   // lines that no script has had yet
}

// mutants is a fleet of the one node that the client is of, on which everybody
// runs the changed scripts. Each line has behind it what stands in its place.
func mutants(tb testing.TB, node rueidis.Client, lines ...string) (limittest.Fleet, *mutant) {
	tb.Helper()
	m := &mutant{Client: node, lines: strings.NewReplacer(lines...), shas: make(map[string]string),
		unseen: make(map[string]bool)}
	for i := 0; i < len(lines); i += 2 {
		m.unseen[lines[i]] = true
	}
	tb.Cleanup(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for line := range m.unseen {
			tb.Errorf("no script has %q", line)
		}
	})
	return limittest.Fleet{Nodes: []shardlimit.Node{{Name: "solo", Client: m}}, Prefix: redistest.Prefix(tb)}, m
}

func (m *mutant) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := cmd.Commands()
	if len(words) < 3 {
		return m.Client.Do(ctx, cmd)
	}
	var body string
	switch words[0] {
	case "EVAL":
		if body = m.lines.Replace(words[1]); body == words[1] {
			return m.Client.Do(ctx, cmd)
		}
		m.mu.Lock()
		maps.DeleteFunc(m.unseen, func(line string, _ bool) bool { return strings.Contains(words[1], line) })
		m.shas[sha(words[1])] = sha(body)
		m.mu.Unlock()
	case "EVALSHA":
		m.mu.Lock()
		body = m.shas[words[1]]
		m.mu.Unlock()
	}
	if body == "" {
		return m.Client.Do(ctx, cmd)
	}
	m.changed.Add(1)
	keys, err := strconv.Atoi(words[2])
	if err != nil {
		panic(err)
	}
	return m.Client.Do(ctx, m.Client.B().Arbitrary(words[0], body, words[2]).
		Keys(words[3:3+keys]...).Args(words[3+keys:]...).Build())
}

func sha(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

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
