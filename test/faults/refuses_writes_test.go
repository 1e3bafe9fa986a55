package faults

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A node answers reads and refuses every write for three minutes. It is put out once, what
// it has is served by the others, and it does not come and go. When it writes again it has a part.
func TestANodeThatRefusesWritesIsLost(t *testing.T) {
	for _, says := range []string{
		"OOM command not allowed when used memory > 'maxmemory'.",
		"READONLY You can't write against a read only replica.",
	} {
		code, _, _ := strings.Cut(says, " ")
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fl, nodes := limittest.BubbledNodes(t, 4)
				fl.Punctual = true
				var log syncBuffer
				client := fl.Client(t, limittest.TakesOver, func(c *shardlimit.Config) {
					c.Logger = slog.New(slog.NewTextHandler(&log, nil))
				})
				limit := shardlimit.Limit{Permits: 400, Per: time.Second, Shards: 4}
				l := limittest.Limiter(t, client, "l", limit)
				users := limittest.Family(t, client, "users", shardlimit.PerSecond(10))
				var key *shardlimit.Limiter
				time.Sleep(5 * time.Minute)
				for i := 0; key == nil; i++ {
					k := users.Limiter(fmt.Sprint("user ", i))
					if _, err := k.Allow(t.Context()); err != nil {
						t.Fatal(err)
					}
					if limittest.Peek(t, k).Shards[0].Node == "n0" {
						key = k
					}
				}
				limittest.Settled(t, l)
				nodes[0].Redis.Refuse(says)
				calls, bad, elsewhere, begun := 0, 0, 0, time.Now()
				for time.Since(begun) < 3*time.Minute {
					_, err := key.Allow(t.Context())
					_, limitErr := l.Allow(t.Context())
					if time.Since(begun) > 30*time.Second {
						calls++
						if err != nil {
							bad++
						}
						if limitErr != nil {
							elsewhere++
						}
					}
					time.Sleep(100 * time.Millisecond)
				}
				if bad+elsewhere > 0 {
					t.Errorf("after 30 s, of %d calls %d of a key and %d of a limit failed", calls, bad, elsewhere)
				}
				if out := log.count("node is put out"); out != 1 {
					t.Errorf("it was put out %d times", out)
				}
				if lines := log.count("node=n0"); lines > 10 {
					t.Errorf("%d lines of log", lines)
				}
				nodes[0].Redis.Refuse("")
				for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Second / 10) {
					_, _ = l.Allow(t.Context())
				}
				if st := limittest.Peek(t, l); !st.Settled || len(limittest.Hosts(st)) != 4 {
					t.Errorf("30 s after it writes again the limit is on %v", limittest.Hosts(st))
				}
			})
		})
	}
}

// syncBuffer is a log that many write to.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.buf.String(), text)
}
