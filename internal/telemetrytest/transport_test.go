package telemetrytest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// permits are those of a Waiter that grants none, with an error.
type permits struct{ err error }

func (p permits) Acquire(context.Context, int64) (shardlimit.Decision, error) {
	return shardlimit.Decision{}, p.err
}

func (permits) Settle(context.Context, shardlimit.Decision, int64) error { return nil }

// A client's requests are told by what became of them, and the pauses by what asked for them.
func TestRequestsOfATransportAreMeasured(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	reader := sdkmetric.NewManualReader()
	outcomes := map[string]error{"/": nil, "/busy": nil, "/later": shardlimit.ErrWaitTooLong,
		"/never": shardlimit.ErrExceedsLimit, "/left": context.Canceled, "/broken": errors.New("broken"),
		"/slow": context.DeadlineExceeded} // of a call, not of the caller
	transport := &httplimit.Transport{
		Retries:       1,
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		Permits:       func(r *http.Request) httplimit.Waiter { return permits{outcomes[r.URL.Path]} },
	}
	client := http.Client{Transport: transport, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	for path, want := range outcomes {
		ctx, cancel := context.WithCancel(t.Context())
		if path == "/left" {
			cancel()
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, http.NoBody)
		limittest.Must(t, err)
		answer, err := client.Do(r)
		cancel()
		if err == nil {
			_ = answer.Body.Close()
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	told := collected(t, reader, "/httplimit")
	documented(t, told)
	for want, count := range map[string]uint64{
		"ratelimit.http.wait.duration outcome=made":                              3, // one of them twice
		"ratelimit.http.wait.duration outcome=denied":                            2,
		"ratelimit.http.wait.duration outcome=canceled":                          1,
		"ratelimit.http.wait.duration outcome=error":                             2,
		"ratelimit.http.pause.duration http.response.status_code=429,outcome=ok": 2,
	} {
		name, attributes, _ := strings.Cut(want, " ")
		if got := points(told[name])[attributes]; got.count != count {
			t.Errorf("%s: %+v, want %d", want, got, count)
		}
	}
	if got := points(told["ratelimit.http.retries"])[""]; got.value != 1 {
		t.Errorf("retries: %+v", got)
	}
}
