package fairness

import (
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// On a machine that is slow callers come late and permits go unused, so no share is judged closely.
// It is enough that the others get half of what they want once; without a rule they get some 40.
func TestAHogOnAServer(t *testing.T) {
	limit := shardlimit.Limit{Permits: 400, Per: 500 * time.Millisecond, Shards: 1}
	for range 6 {
		var granted [5]atomic.Int64 // after a second
		var all sync.WaitGroup
		begun := time.Now()
		for i, l := range limittest.Standalone(t).Group(t, len(granted), "l", limit) {
			rate := 80.0 // a second, of the 160 each is entitled to
			if i == 0 {
				rate = 8000
			}
			all.Go(func() {
				for done := 0.0; time.Since(begun) < 3*time.Second; {
					if done >= rate*time.Since(begun).Seconds() {
						time.Sleep(time.Millisecond)
						continue
					}
					done++
					d, err := l.Allow(t.Context())
					if limittest.ErrorIs(t, err, nil); time.Since(begun) > time.Second {
						granted[i].Add(d.Granted)
					}
				}
			})
		}
		all.Wait()
		little := int64(0)
		for i := range granted[1:] {
			little += granted[1+i].Load()
		}
		t.Logf("the hog got %d, the others %d of the 640 they wanted", granted[0].Load(), little)
		if little >= 320 || t.Failed() {
			return
		}
	}
	t.Error("every time the others got less than half of what they wanted")
}

func TestParticipantsThatCannotBe(t *testing.T) {
	f := limittest.Standalone(t)
	l := f.Limiter(t, shardlimit.PerSecond(10))
	for name, c := range map[string]struct {
		as   *shardlimit.Limiter
		want error
	}{
		"no name":     {l.As("", 1), shardlimit.ErrInvalidName},
		"a long name": {l.As(strings.Repeat("x", shardlimit.MaxName+1), 1), shardlimit.ErrInvalidName},
		"no weight":   {l.As("p", 0), shardlimit.ErrInvalidConfig},
		"NaN":         {l.As("p", math.NaN()), shardlimit.ErrInvalidConfig},
		"too heavy":   {l.As("p", shardlimit.MaxWeight+1), shardlimit.ErrInvalidConfig},
	} {
		limittest.ErrorIs(t, limittest.Err(c.as.Allow(t.Context())), c.want, name)
		limittest.ErrorIs(t, c.as.Wait(t.Context()), c.want, name, "that waits")
	}
	limittest.ErrorIs(t, limittest.Err(shardlimit.New(shardlimit.Config{Nodes: f.Nodes, Weight: -2})),
		shardlimit.ErrInvalidConfig, "a negative weight")
}

// However much is asked for in vain, and however often, the shards are told a
// number that they accept.
func TestImmenseDemandIsReported(t *testing.T) {
	limit := shardlimit.Limit{Permits: shardlimit.MaxPermits, Per: 100 * time.Millisecond, Shards: 2}
	limiters := limittest.Standalone(t).Group(t, 2, "l", limit)
	for range 20 {
		for _, l := range limiters {
			limittest.Must(t, limittest.Err(l.AllowUpTo(t.Context(), shardlimit.MaxPermits)))
		}
		time.Sleep(20 * time.Millisecond) // so that memory does not answer
	}
}

// The ID is part of what is stored: it must not change, and be hard to collide with.
func TestParticipantIDIsTheHeadOfSHA256(t *testing.T) {
	if id := shardlimit.ParticipantID("abc"); id != "ba7816bf8f01cfea" { // FIPS 180-2, appendix B.1
		t.Error(id)
	}
}

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }
