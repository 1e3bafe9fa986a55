package scenario

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
	"github.com/shardlimit/shardlimit/bench/internal/web"
)

// Every door lets a key pass as often as its limit says, and no more often.
func TestDoorsKeepTheLimitOfEachKey(t *testing.T) {
	s := servertest.Start(t)
	for _, d := range doors() {
		if d.name == "none" || d.denied {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			wrap, end, err := d.open(ctx, s.Addr(), rival.Limit{Permits: 5, Per: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			defer end()
			site, err := web.Serve(wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte("ok"))
			})))
			if err != nil {
				t.Fatal(err)
			}
			defer site.Close()
			c, err := web.Dial(ctx, site.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, key := range []string{"ann of " + d.name, "ben of " + d.name} {
				for i := range 8 {
					want := http.StatusOK
					if i >= 5 {
						want = http.StatusTooManyRequests
					}
					if status, err := c.Get(key); err != nil || status != want {
						t.Errorf("request %d of %s: %d, %v; want %d", i, key, status, err, want)
					}
				}
			}
		})
	}
}
