package denied

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A refusal is told for one period at least and for two at most. The log has a line for each limit
// and period.
func TestDeniedForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		d := New(time.Now())
		begin := time.Now()
		go d.Log(ctx, slog.New(slog.NewTextHandler(&log, nil)))
		for range 3 {
			d.Hear(t.Context(), shardlimit.Refusal{Limiter: "users", Key: "ann"})
		}
		d.Hear(t.Context(), shardlimit.Refusal{Limiter: "users", Key: "bob"})
		d.Hear(t.Context(), shardlimit.Refusal{Limiter: "hosts", Key: "a b"})
		d.Hear(t.Context(), shardlimit.Refusal{Limiter: "a limit without keys"})
		for i, want := range []string{"hosts users", "hosts users", "", ""} {
			since, all := d.Told()
			var limits []string
			for _, l := range all {
				limits = append(limits, l.Limiter)
			}
			if got := strings.Join(limits, " "); got != want || since.Before(begin) || time.Since(since) > 2*Period {
				t.Errorf("after %d periods: %s since %s", i, got, since)
			}
			if want != "" && (all[1].Calls != 4 || all[1].Keys[0] != Key{"ann", 3, 0} || len(all[1].Keys) != 2) {
				t.Errorf("%+v", all[1])
			}
			time.Sleep(Period)
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		for _, want := range []string{`limiter=hosts calls=1 keys="\"a b\" 1"`,
			`limiter=users calls=4 keys="\"ann\" 3, \"bob\" 1"`} {
			if strings.Count(log.String(), want) != 1 || strings.Count(log.String(), "\n") != 2 {
				t.Errorf("no line with %s: %s", want, log.String())
			}
		}
	})
}

func TestDeniedIsSafeForConcurrentUse(t *testing.T) {
	d := New(time.Now())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				d.Hear(t.Context(), shardlimit.Refusal{Limiter: "users", Key: "ann"})
				d.Told()
			}
		})
	}
	wg.Wait()
	if _, all := d.Told(); all[0].Calls != 8000 {
		t.Errorf("%+v", all)
	}
}
