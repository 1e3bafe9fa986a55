package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
	"github.com/shardlimit/shardlimit/embedded"
)

// A file says all of a limit that code can say.
func TestAFileSaysAllOfALimit(t *testing.T) {
	settings, err := serve.ParseSettings([]byte(`limits:
- {name: bucket, rate: 10/s, algorithm: token-bucket, burst: 50, mode: shadow, shards: 4, revision: 2}
- {name: edge, rate: 1000/d, algorithm: fixed_window}
- {name: held, rate: 500/s, lease: 10ms}
- {name: each, rate: 1/h, scope: per-participant}
`))
	got := settings.Limits
	want := []serve.Declaration{
		{Name: "bucket", Limit: shardlimit.Limit{Permits: 10, Per: time.Second, Algorithm: shardlimit.TokenBucket,
			Burst: 50, Mode: shardlimit.Shadow, Shards: 4, Revision: 2}},
		{Name: "edge", Limit: shardlimit.Limit{Permits: 1000, Per: 24 * time.Hour, Algorithm: shardlimit.FixedWindow}},
		{Name: "held", Limit: shardlimit.Limit{Permits: 500, Per: time.Second, Lease: 10 * time.Millisecond}},
		{Name: "each", Limit: shardlimit.Limit{Permits: 1, Per: time.Hour, Scope: shardlimit.PerParticipant}},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
	said := map[string]bool{} // also fields that come later
	for _, d := range got {
		for field, value := range reflect.ValueOf(d.Limit).Fields() {
			said[field.Name] = said[field.Name] || !value.IsZero()
		}
	}
	for field, is := range said {
		if !is {
			t.Errorf("no file can say %s", field)
		}
	}
}

func TestParse(t *testing.T) {
	if d, err := serve.Parse("a=b=7/m", true); err != nil || d.Name != "a=b" || !d.PerKey ||
		d.Limit != shardlimit.PerMinute(7) {
		t.Errorf("%+v, %v", d, err)
	}
	for _, s := range []string{"", "7/m", "=7/m", "a=", "a=7"} {
		if d, err := serve.Parse(s, false); err == nil {
			t.Errorf("%q: %+v", s, d)
		}
	}
}

// served is a server of limits on an embedded node, and its client.
func served(t *testing.T, o serve.Options, all ...serve.Declaration) (*serve.Server, *shardlimit.Client) {
	t.Helper()
	nodes, err := embedded.Start(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nodes.Close)
	client, err := shardlimit.New(shardlimit.Config{Nodes: nodes.Nodes(), CallTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	limits, err := serve.Declare(t.Context(), client, all)
	if err != nil {
		t.Fatal(err)
	}
	return serve.New(limits, http.NotFoundHandler(), o), client
}

// ask makes a request in JSON; fields are those of its head, as pairs.
func ask(s *serve.Server, method, path, body string, fields ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	s.ServeHTTP(w, r)
	return w
}

func allow(s *serve.Server, body string) *httptest.ResponseRecorder {
	return ask(s, http.MethodPost, "/v1/allow", body)
}

// A named participant contends as itself: its demand is in an account of its own, with its weight.
func TestParticipantsAreThoseOfTheRequests(t *testing.T) {
	s, client := served(t, serve.Options{}, serve.Declaration{Name: "l", Limit: shardlimit.PerHour(3)})
	for _, who := range []string{``, `, "participant": "ann"`, `, "participant": "bob", "weight": 2.5`} {
		for range 3 {
			allow(s, `{"limiter": "l", "n": 2`+who+`}`)
		}
	}
	limiter, err := client.Open(t.Context(), "l")
	if err != nil {
		t.Fatal(err)
	}
	all, err := limiter.Participants(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	weights := map[string]float64{}
	for _, p := range all {
		weights[p.ID] = p.Weight
	}
	for name, weight := range map[string]float64{"ann": 1, "bob": 2.5} {
		if weights[shardlimit.ParticipantID(name)] != weight {
			t.Errorf("%s is not there with the weight %v: %+v", name, weight, all)
		}
	}
}

func TestAnswers(t *testing.T) {
	s, _ := served(t, serve.Options{}, serve.Declaration{Name: "one", Limit: shardlimit.PerHour(3)},
		serve.Declaration{Name: "each", PerKey: true, Limit: shardlimit.PerHour(3)})
	for i, step := range []struct {
		body string
		code int
		says string
	}{
		{`{"limiter": "one", "n": 2}`, 200, `{"allowed":true,"granted":2,"limit":3,"remaining":1,"retry_after_us":0,`},
		{`{"limiter": "one", "n": 2}`, 429, `"allowed":false,"granted":0,"limit":3,"remaining":1,`},
		{`{"limiter": "one", "n": 0}`, 200, `{"allowed":true,"granted":0,"limit":3,"remaining":1,`},
		{`{"limiter": "one", "n": -1}`, 400, "or look with 0"},
		{`{"limiter": "one", "n": "1"}`, 400, `\"n\" cannot be of the type string`},
		{"{\"limiter\": \"each\", \"key\": \"\xff\"}", 400, "not UTF-8"},
		{`{"limiter": "each", "key": "\ud800"}`, 400, "not UTF-8"},
		{`{"limiter": "one", "n": 4}`, 400, "more permits than the limit has"},
		{`{"limiter": "one", "key": "k"}`, 400, "has no keys"},
		{`{"limiter": "each"}`, 400, "the key has 0 bytes"},
		{`{"limiter": "one", "participant": "ann", "weight": 0}`, 400, `participant \"ann\" is 0`},
		{`{"limiter": "one", "weight": 2}`, 400, "a weight needs a participant"},
		{`{"limiter": "one", "participant": "` + strings.Repeat("x", 1000) + `"}`, 400,
			"the participant has 1000 bytes"},
		{`{"limiter": "none"}`, 404, `no limiter \"none\"`},
		{`{"limiter": "one", "permits": 1}`, 400, "unknown field"},
		{`limiter=one`, 400, "the body is not"},
		{`{"limiter": "` + strings.Repeat("x", 1<<20) + `"}`, 413, "more than 16384 bytes"},
		{`{"limiter": "one"} {"limiter": "one"}`, 400, "something follows"},
		{``, 400, `\"n\": 1}: EOF`},
		{`[]`, 400, `\"all of it\" cannot be of the type array`},
		{`{"limiter": "one", "n": 1.5}`, 400, `\"n\" cannot be of the type number 1.5`},
	} {
		w := allow(s, step.body)
		if w.Code != step.code || !strings.Contains(w.Body.String(), step.says) {
			t.Errorf("step %d: %d %s", i, w.Code, w.Body)
		}
		if told := w.Code == 200 || w.Code == 429; told != (w.Header().Get("RateLimit-Policy") == `"one";q=3;w=3600`) ||
			told != (w.Header().Get("RateLimit") == `"one";r=1;t=3600`) {
			t.Errorf("step %d: %q", i, w.Header())
		}
		if refused := w.Code != 200 && w.Code != 429; refused != strings.Contains(w.Body.String(), `"code":"`) {
			t.Errorf("step %d: %s", i, w.Body)
		}
		if (w.Code == 429) != (w.Header().Get("Retry-After") == "3600") {
			t.Errorf("step %d: Retry-After is %q", i, w.Header().Get("Retry-After"))
		}
	}
	if w := ask(s, http.MethodGet, "/v1/allow", ""); w.Header().Get("Allow") != "POST" {
		t.Errorf("GET: %q, %s", w.Header(), w.Body)
	}
}

// A look tells what the mode of the limit says, as a call for a permit does.
func TestALookGoesByTheMode(t *testing.T) {
	var all []serve.Declaration
	for _, mode := range []shardlimit.Mode{shardlimit.Shadow, shardlimit.Off, shardlimit.Closed} {
		all = append(all, serve.Declaration{Name: mode.String(), Limit: shardlimit.Limit{Permits: 1, Per: time.Hour,
			Mode: mode}})
	}
	s, _ := served(t, serve.Options{}, all...)
	for _, n := range []string{"1", "0"} { // the permit of the one in shadow is used before the look
		for name, want := range map[string]string{"shadow": `"shadowed":` + strconv.FormatBool(n == "0") + `}`,
			"off": `"limit":1,"remaining":1,`, "closed": `"allowed":false,"granted":0,"limit":1,"remaining":0,` +
				`"retry_after_us":15000000,"reset_after_us":0,"delay_us":0,"degraded":false,"shadowed":false,` +
				`"reason":"closed"}`} {
			w := allow(s, `{"limiter": "`+name+`", "n": `+n+`}`)
			closed := name == "closed"
			if !strings.Contains(w.Body.String(), want) || (w.Code == 429) != (closed && n == "1") ||
				closed == strings.Contains(w.Body.String(), `"allowed":true`) ||
				closed != (w.Header().Get("RateLimit") == `"closed";r=0;t=15`) ||
				closed != (w.Header().Get("RateLimit-Policy") != "") ||
				closed != (w.Header().Get("Retry-After") == "15") {
				t.Errorf("%s, %s: %d %s %q", name, n, w.Code, w.Body, w.Header())
			}
		}
	}
}

// Every answer that is not 200 is a problem of RFC 9457, with a code; that of a refusal has the
// fields of the decision in its place.
func TestEveryErrorIsAProblem(t *testing.T) {
	tokens, err := serve.ParseTokens([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	s, client := served(t, serve.Options{Tokens: tokens, Log: slog.New(slog.DiscardHandler),
		Ready: func(context.Context) []shardlimit.NodeState {
			return []shardlimit.NodeState{{Err: errors.ErrUnsupported}}
		}}, serve.Declaration{Name: "one", Limit: shardlimit.PerHour(1)},
		serve.Declaration{Name: "each", PerKey: true, Limit: shardlimit.PerHour(1)})
	const post, get, bearer, asJSON = http.MethodPost, http.MethodGet, "Bearer 0123456789abcdef", "application/json"
	for _, step := range []struct {
		method, path, token, kind, body string
		status                          int
		code                            string
	}{
		{post, "/v1/allow", "", asJSON, `{"limiter": "one"}`, 401, "unauthorized"},
		{get, "/metrics", "Bearer guessed", asJSON, "", 401, "unauthorized"},
		{post, "/v1/allow", bearer, asJSON, `{"limiter": "one"}`, 200, ""},
		{post, "/v1/allow", bearer, asJSON, `{"limiter": "one"}`, 429, ""},
		{post, "/v1/allow", bearer, asJSON, `{"limiter": "one", "n": 2}`, 400, "exceeds_limit"},
		{post, "/v1/allow", bearer, asJSON, `{"limiter": "one", "key": "k"}`, 400, "invalid_request"},
		{post, "/v1/allow", bearer, asJSON, `{"limiter": "each"}`, 400, "invalid_request"},
		{post, "/v1/allow", bearer, asJSON, `{`, 400, "invalid_request"},
		{post, "/v1/allow", bearer, asJSON, `{"limiter": "none"}`, 404, "unknown_limiter"},
		{post, "/v1/allow", bearer, asJSON, strings.Repeat(" ", 1<<20), 413, "too_large"},
		{post, "/v1/allow", bearer, "Application/JSON;charset=utf-8", `{"limiter": "none"}`, 404, "unknown_limiter"},
		{post, "/v1/allow", bearer, "", `{"limiter": "one"}`, 415, "not_json"},
		{post, "/v1/allow", bearer, "text/plain", `{"limiter": "one"}`, 415, "not_json"},
		{post, "/v1/allow", bearer, "application/json, text/plain", `{"limiter": "one"}`, 415, "not_json"},
		{get, "/v1/denied", bearer, asJSON, "", 404, "unknown_limiter"},
		{get, "/", "", asJSON, "", 404, "unknown_limiter"},
		{get, "/v1/allow", "", asJSON, "", 405, "method_not_allowed"},
		{post, "/metrics", "", asJSON, "", 405, "method_not_allowed"},
		{post, "/healthz", "", asJSON, "", 405, "method_not_allowed"},
		{post, "/readyz", "", asJSON, "", 405, "method_not_allowed"},
		{get, "/readyz", "", asJSON, "", 503, "unavailable"},
		{get, "/healthz", "", asJSON, "the server leaves", 503, "unavailable"},
		{get, "/readyz", "", asJSON, "the server leaves", 503, "unavailable"},
		{post, "/v1/allow", bearer, asJSON, `{"limiter": "one", "n": 1, "key": ""}`, 503, "unavailable"},
	} {
		if step.body == "the server leaves" {
			s.Leave()
			client.Close()
		}
		w := ask(s, step.method, step.path, step.body, "Content-Type", step.kind, "Authorization", step.token)
		var got struct {
			Type, Title, Detail, Code string
			Status                    int
			Violated                  []string `json:"violated-policies"`
			serve.Answer
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != step.status {
			t.Fatalf("%+v: %d %s, %v", step, w.Code, w.Body, err)
		}
		kind, title := "application/problem+json", http.StatusText(step.status)
		switch step.status {
		case 200:
			if kind, title = "application/json", ""; !got.Allowed || got.Type != "" {
				t.Errorf("%+v: %s", step, w.Body)
			}
			step.status = 0
		case 429:
			title = "The quota of a policy is exceeded"
			if !strings.HasSuffix(got.Type, "#quota-exceeded") || !slices.Equal(got.Violated, []string{"one"}) ||
				got.Limit != 1 || got.RetryAfterUS < 3e9 || got.Reason != "full" ||
				!strings.Contains(w.Body.String(), `"allowed":false,"granted":0,`) {
				t.Errorf("%+v: %s", step, w.Body)
			}
		default:
			if got.Type != "about:blank" {
				t.Errorf("%+v: %s", step, w.Body)
			}
		}
		if w.Header().Get("Content-Type") != kind || got.Title != title || got.Status != step.status ||
			(got.Detail == "") != (step.status == 0) || got.Code != step.code {
			t.Errorf("%+v: %q %s", step, w.Header().Get("Content-Type"), w.Body)
		}
	}
}

// The name of a limit may be any text, and fields of headers hold ASCII only.
func TestAPolicyHasOneNameInAllPlaces(t *testing.T) {
	for name, want := range map[string]string{"a b/c": "a b/c", "Grüße": "Gr%C3%BC%C3%9Fe", "5%\n": "5%25%0A"} {
		s, _ := served(t, serve.Options{}, serve.Declaration{Name: name, Limit: shardlimit.PerHour(1)})
		body, _ := json.Marshal(map[string]string{"limiter": name})
		for _, violated := range []string{"", `"violated-policies":["` + want + `"]`} {
			w := allow(s, string(body))
			for _, field := range []string{"RateLimit-Policy", "RateLimit"} {
				if got := w.Header().Get(field); !strings.HasPrefix(got, `"`+want+`";`) {
					t.Errorf("%q: %s: %s", name, field, got)
				}
			}
			if !strings.Contains(w.Body.String(), violated) {
				t.Errorf("%q: %s", name, w.Body)
			}
		}
	}
}

// A client that neither sends nor reads cannot hold a connection for ever, and one that waits for a
// decision is answered.
func TestConnectionsAreBounded(t *testing.T) {
	h := serve.HTTP(http.NotFoundHandler(), time.Minute)
	if h.MaxHeaderBytes <= 0 || h.ReadHeaderTimeout <= 0 || h.ReadTimeout <= 0 || h.IdleTimeout <= 0 ||
		h.WriteTimeout <= h.ReadTimeout+time.Minute {
		t.Errorf("%+v", h)
	}
}
