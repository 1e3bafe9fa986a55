package telemetrytest

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

var update = flag.Bool("update", false, "draw the trace of docs/howto anew")

const picture = "../../docs/howto/trace.svg"

// One trace leads from an HTTP request over the decision and the batch, which served two others as
// well, to the script call on its node. The picture in the documentation shows what was read back.
func TestATraceLeadsFromARequestToItsNode(t *testing.T) {
	p := newProbe(t, 1)
	orders := limiter(t, p.client, "orders", shardlimit.PerMinute(100))
	if _, err := orders.Allow(t.Context()); err != nil { // it is declared, and the script loaded
		t.Fatal(err)
	}
	handler := httplimit.New(httplimit.One(orders), httplimit.Options{})(http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) {}))
	server := httptest.NewServer(otelhttp.NewHandler(handler, "POST /orders", otelhttp.WithTracerProvider(p.traces),
		otelhttp.WithSpanNameFormatter(func(name string, _ *http.Request) string { return name })))
	defer server.Close()
	requestTogether(t, p, orders, server.URL+"/orders", 3)
	var requests []sdktrace.ReadOnlySpan
	await(t, "the spans of the requests have ended", func() bool {
		requests = slices.DeleteFunc(p.spans.Ended(), func(s sdktrace.ReadOnlySpan) bool {
			return s.SpanKind() != trace.SpanKindServer
		})
		return len(requests) == 3
	})
	calls := p.scripts()
	if len(calls) != 1 {
		t.Fatalf("%d script calls are traced", len(calls))
	}
	isOneTrace(t, requests, calls[0])
	drawn := drawTrace(requests, calls[0])
	if *update {
		if err := os.WriteFile(picture, []byte(drawn), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	showsTheSame(t, drawn)
}

// requestTogether makes requests whose calls fly together, behind one that is held up.
func requestTogether(t *testing.T, p *probe, l *shardlimit.Limiter, url string, n int) {
	t.Helper()
	p.proxy[0].Stall(true)
	ended := make(chan error, n+1)
	sent := p.sent.Load()
	go func() { _, err := l.Allow(t.Context()); ended <- err }()
	await(t, "one call is under way", func() bool { return p.sent.Load() > sent })
	for range n {
		go func() {
			answer, err := http.Post(url, "text/plain", nil)
			if err == nil {
				err = answer.Body.Close()
			}
			ended <- err
		}()
	}
	await(t, "the requests wait", func() bool { return asking() == n+1 })
	p.proxy[0].Delay(30 * time.Millisecond) // so that the call can be seen in the picture
	p.proxy[0].Stall(false)
	for range n + 1 {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}

func isOneTrace(t *testing.T, requests []sdktrace.ReadOnlySpan, call sdktrace.ReadOnlySpan) {
	t.Helper()
	linked := map[trace.SpanID]bool{}
	for _, link := range call.Links() {
		linked[link.SpanContext.SpanID()] = true
	}
	parents := 0
	for _, r := range requests {
		if got := attributes(r); got["ratelimit.outcome"] != "allowed" || got["ratelimit.source"] != "redis" ||
			got["http.response.status_code"] != "200" {
			t.Errorf("a request: %v", got)
		}
		if !linked[r.SpanContext().SpanID()] {
			t.Error("a request is not linked to the call that served it")
		}
		if r.SpanContext().SpanID() == call.Parent().SpanID() &&
			r.SpanContext().TraceID() == call.SpanContext().TraceID() {
			parents++
		}
	}
	if parents != 1 {
		t.Errorf("%d of the requests have the call in their trace", parents)
	}
	if got := attributes(call); got["db.operation.batch.size"] != "3" || got["ratelimit.node"] != "n0" {
		t.Errorf("the call: %v", got)
	}
}

// showsTheSame checks that the picture in the documentation has the same texts, but for numbers,
// which differ from run to run.
func showsTheSame(t *testing.T, drawn string) {
	t.Helper()
	file, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := textsOf(string(file)), textsOf(drawn); got != want {
		t.Errorf("%s is out of date, see -update:\n%s\nand now\n%s", picture, got, want)
	}
}

// textsOf are the texts of a picture, without digits and the names of traces.
func textsOf(svg string) string {
	var all []string
	for piece := range strings.SplitSeq(svg, "<text") {
		_, text, _ := strings.Cut(piece, ">")
		text, _, found := strings.Cut(text, "</text>")
		if found && !strings.HasPrefix(text, "trace ") {
			all = append(all, strings.Map(func(r rune) rune {
				if r >= '0' && r <= '9' || r == '.' {
					return -1
				}
				return r
			}, text))
		}
	}
	return strings.Join(all, "\n")
}
