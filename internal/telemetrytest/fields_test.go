package telemetrytest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// TestFieldsAreStructured reads the fields of answers back: names, windows and numbers.
func TestFieldsAreStructured(t *testing.T) {
	client := limittest.InProcess(t, 1).Client(t)
	most := limittest.Limiter(t, client, "most",
		shardlimit.Limit{Permits: shardlimit.MaxPermits, Per: shardlimit.MaxWindow})
	few := limittest.Limiter(t, client, "few", shardlimit.PerMinute(1))
	quoted := `a "b\", c;d=1`
	h := httplimit.New(httplimit.One(httplimit.All(httplimit.Policy{Name: "most", Limiter: most},
		httplimit.Policy{Name: quoted, Limiter: few})), httplimit.Options{})(http.NotFoundHandler())
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil))
		rules := parsed(t, w.Header(), "RateLimit-Policy")
		if len(rules) != 2 {
			t.Fatalf("%d policies in %v", len(rules), w.Header())
		}
		check(t, rules[0], "most",
			map[string]int64{"q": shardlimit.MaxPermits, "w": int64(shardlimit.MaxWindow / time.Second)})
		check(t, rules[1], quoted, map[string]int64{"q": 1, "w": 60})
		left := parsed(t, w.Header(), "RateLimit")
		if len(left) != 2 {
			t.Fatalf("%v", w.Header())
		}
		state := map[string]int64{"r": 0, "t": 60}
		check(t, left[1], quoted, state)
	}
}

func parsed(t *testing.T, h http.Header, field string) httpsfv.List {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h.Values(field))
	if err != nil {
		t.Fatalf("%s: %v in %q", field, err, h.Values(field))
	}
	return list
}

func check(t *testing.T, m httpsfv.Member, name string, params map[string]int64) {
	t.Helper()
	item, ok := m.(httpsfv.Item)
	if !ok || item.Value != name || len(item.Params.Names()) != len(params) {
		t.Fatalf("%+v, want %q with %v", m, name, params)
	}
	for param, want := range params {
		if got, _ := item.Params.Get(param); got != want {
			t.Errorf("%s of %q is %v, want %d", param, name, got, want)
		}
	}
}
