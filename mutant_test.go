package shardlimit_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// takeMark is in the text of the script that takes permits, and in no other.
const takeMark = "-- Take: propose a share, grant permits."

// mutant is a Redis client that puts another line in place of one of the take
// script's: a limiter that is broken on purpose.
type mutant struct {
	rueidis.Client
	line, instead string
	changed       atomic.Int64 // takes that ran the changed text

	mu   sync.Mutex
	shas map[string]string // of the changed text by that of the true one
}

// mutants is a fleet of the one node that the client is of, on which everybody
// runs the changed script. The line must stand exactly once in the script.
func mutants(tb testing.TB, node rueidis.Client, line, instead string) (fleet, *mutant) {
	tb.Helper()
	m := &mutant{Client: node, line: line, instead: instead, shas: make(map[string]string)}
	return fleet{nodes: []shardlimit.Node{{Name: "solo", Client: m}}, prefix: redistest.Prefix(tb)}, m
}

func (m *mutant) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := cmd.Commands()
	if len(words) < 3 {
		return m.Client.Do(ctx, cmd)
	}
	var body string
	switch words[0] {
	case "EVAL":
		if !strings.Contains(words[1], takeMark) {
			return m.Client.Do(ctx, cmd)
		}
		if strings.Count(words[1], m.line) != 1 {
			panic("the take script does not hold exactly once: " + m.line)
		}
		body = strings.Replace(words[1], m.line, m.instead, 1)
		m.mu.Lock()
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
