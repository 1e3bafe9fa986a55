package telemetrytest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
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
		want := []string{fmt.Sprintf("most q=%d w=%d", shardlimit.MaxPermits, int64(shardlimit.MaxWindow/time.Second)),
			quoted + " q=1 w=60"}
		if got := parsed(t, w.Header(), "RateLimit-Policy"); !slices.Equal(got, want) {
			t.Errorf("the policies are %q, want %q", got, want)
		}
		if got := parsed(t, w.Header(), "RateLimit"); len(got) != 2 || got[1] != quoted+" r=0 t=60" {
			t.Errorf("what is left is %q", got)
		}
	}
}

// parsed are the members of a list, each with its parameters.
func parsed(t *testing.T, h http.Header, field string) (all []string) {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h.Values(field))
	if err != nil {
		t.Fatalf("%s: %v in %q", field, err, h.Values(field))
	}
	for _, member := range list {
		item, _ := member.(httpsfv.Item)
		said := fmt.Sprint(item.Value)
		for _, name := range item.Params.Names() {
			value, _ := item.Params.Get(name)
			said += fmt.Sprintf(" %s=%v", name, value)
		}
		all = append(all, said)
	}
	return all
}
