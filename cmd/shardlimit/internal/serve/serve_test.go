package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// served is a server of limits on an embedded node, and its client.
func served(t *testing.T, o serve.Options, all ...serve.Declaration) (*serve.Server, *shardlimit.Client) {
	t.Helper()
	client := limittest.InProcess(t, 1).Client(t)
	limits, err := serve.Declare(t.Context(), client, all)
	limittest.Must(t, err)
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
	all, err := limittest.Limiter(t, client, "l", shardlimit.PerHour(3)).Participants(t.Context())
	limittest.Must(t, err)
	for name, weight := range map[string]float64{"ann": 1, "bob": 2.5} {
		if !slices.ContainsFunc(all, func(p shardlimit.ParticipantState) bool {
			return p.ID == shardlimit.ParticipantID(name) && p.Weight == weight
		}) {
			t.Errorf("%s is not there with the weight %v: %+v", name, weight, all)
		}
	}
}

// A decision tells of its limit in the head, and no other answer does. A refusal of a body tells
// what is wrong with it.
func TestAnswers(t *testing.T) {
	s, client := served(t, serve.Options{Log: slog.New(slog.DiscardHandler)},
		serve.Declaration{Name: "one", Limit: shardlimit.PerHour(3)},
		serve.Declaration{Name: "each", PerKey: true, Limit: shardlimit.PerHour(3)})
	for _, step := range []struct {
		body       string
		status     int
		code, says string
	}{
		{`{"limiter": "one", "n": 2}`, 200, "",
			`{"allowed":true,"granted":2,"limit":3,"remaining":1,"retry_after_us":0,`},
		{`{"limiter": "one", "n": 2}`, 429, "",
			`"allowed":false,"granted":0,"limit":3,"remaining":1,"retry_after_us":3`},
		{`{"limiter": "one", "n": 0}`, 200, "", `{"allowed":true,"granted":0,"limit":3,"remaining":1,`},
		{`{"limiter": "one", "n": -1}`, 400, "invalid_request", "or look with 0"},
		{`{"limiter": "one", "n": "1"}`, 400, "invalid_request", `\"n\" cannot be of the type string`},
		{"{\"limiter\": \"each\", \"key\": \"\xff\"}", 400, "invalid_request", "not UTF-8"},
		{`{"limiter": "each", "key": "\ud800"}`, 400, "invalid_request", "not UTF-8"},
		{`{"limiter": "one", "participant": "\ud800"}`, 400, "invalid_request", "not UTF-8"},
		{`{"limiter": "one", "n": 4}`, 400, "exceeds_limit", "more permits than the limit has"},
		{`{"limiter": "one", "key": "k"}`, 400, "invalid_request", "has no keys"},
		{`{"limiter": "each"}`, 400, "invalid_request", "the key has 0 bytes"},
		{`{"limiter": "one", "participant": "ann", "weight": 0}`, 400, "invalid_request", `participant \"ann\" is 0`},
		{`{"limiter": "one", "weight": 2}`, 400, "invalid_request", "a weight needs a participant"},
		{`{"limiter": "none"}`, 404, "unknown_limiter", `no limiter \"none\"`},
		{`{"limiter": "one", "permits": 1}`, 400, "invalid_request", `\"n\": 1}: unknown field`},
		{`{"limiter": "` + strings.Repeat("x", 1<<20) + `"}`, 413, "too_large", "more than 16384 bytes"},
		{`{"limiter": "one"} {"limiter": "one"}`, 400, "invalid_request", "something follows"},
		{`[]`, 400, "invalid_request", `\"all of it\" cannot be of the type array`},
		{`limiter=one`, 400, "invalid_request", "the body is not"},
	} {
		w := allow(s, step.body)
		checkAnswer(t, w, step.status, step.code)
		decided, h := step.code == "", w.Header()
		if !strings.Contains(w.Body.String(), step.says) || decided != (h.Get("RateLimit") == `"one";r=1;t=3600`) ||
			decided != (h.Get("RateLimit-Policy") == `"one";q=3;w=3600`) ||
			(step.status == 429) != (h.Get("Retry-After") == "3600") {
			t.Errorf("%.60s: %s, %q", step.body, w.Body, h)
		}
	}
	client.Close()
	checkAnswer(t, allow(s, `{"limiter": "one"}`), 503, "unavailable")
}

// checkAnswer checks what came of a call or another request: if that is not 200 it is a problem of
// RFC 9457, with a code; that of a refusal has the fields of the decision in its place.
func checkAnswer(t *testing.T, w *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	var got struct {
		Type, Title, Detail, Code string
		Status                    int
		Violated                  []string `json:"violated-policies"`
		serve.Answer
	}
	kind, title, told := "application/problem+json", http.StatusText(status), status
	err := json.Unmarshal(w.Body.Bytes(), &got)
	wrong := err != nil
	switch status {
	case 200:
		kind, title, told = "application/json", "", 0
		wrong = wrong || got.Type != ""
	case 429:
		title = "The quota of a policy is exceeded"
		wrong = wrong || !strings.HasSuffix(got.Type, "#quota-exceeded") || len(got.Violated) != 1 ||
			got.Reason != "full"
	default:
		wrong = wrong || got.Type != "about:blank"
	}
	if wrong || w.Code != status || w.Header().Get("Content-Type") != kind || got.Title != title ||
		got.Status != told || (got.Detail == "") != (told == 0) || got.Code != code {
		t.Errorf("want %d %q, got %d %q %s: %v", status, code, w.Code, w.Header(), w.Body, err)
	}
}

// A token opens permits, metrics and refused keys; anybody may ask whether the server lives. A
// request with another method than the path serves is a problem.
func TestWhoIsAnswered(t *testing.T) {
	tokens, err := serve.ParseTokens([]byte("0123456789abcdef"))
	limittest.Must(t, err)
	s := serve.New(serve.Limits{}, http.NotFoundHandler(), serve.Options{Tokens: tokens,
		Ready: func(context.Context) []shardlimit.NodeState { return nil }, Denied: &httplimit.RefusedKeys{}})
	const post, get, bearer, asJSON = http.MethodPost, http.MethodGet, "Bearer 0123456789abcdef", "application/json"
	for _, step := range []struct {
		method, path, token, kind string
		status                    int
		code                      string // "": no problem of ours
	}{
		{post, "/v1/allow", "", asJSON, 401, "unauthorized"},
		{get, "/metrics", "", asJSON, 401, "unauthorized"},
		{get, "/metrics", bearer, "", 404, ""},
		{get, "/v1/denied", "", asJSON, 401, "unauthorized"},
		{get, "/v1/denied", bearer, "", 200, ""},
		{post, "/v1/allow", bearer, "Application/JSON;charset=utf-8", 404, "unknown_limiter"},
		{post, "/v1/allow", bearer, "", 415, "not_json"},
		{post, "/v1/allow", bearer, "text/plain", 415, "not_json"},
		{post, "/v1/allow", bearer, "application/json, text/plain", 415, "not_json"},
		{get, "/", "", asJSON, 404, "unknown_limiter"},
		{get, "/v1/allow", "", asJSON, 405, "method_not_allowed"},
		{post, "/v1/denied", "", asJSON, 405, "method_not_allowed"},
		{get, "/healthz", "", "", 200, ""},
		{get, "/readyz", "", "", 200, ""},
	} {
		w := ask(s, step.method, step.path, `{"limiter": "x"}`, "Content-Type", step.kind, "Authorization", step.token)
		if step.code != "" {
			checkAnswer(t, w, step.status, step.code)
		}
		if w.Code != step.status || (w.Code == 401) != (w.Header().Get("WWW-Authenticate") == "Bearer") ||
			(w.Code == 405) != (w.Header().Get("Allow") != "") {
			t.Errorf("%+v: %d %q", step, w.Code, w.Header())
		}
	}
	s, _ = served(t, serve.Options{}) // without Denied there is no such path
	checkAnswer(t, ask(s, get, "/v1/denied", ""), 404, "unknown_limiter")
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

// The server is ready if one node answers. Callers hear of no address, and the log tells of each
// change once.
func TestReadyIfANodeAnswers(t *testing.T) {
	var nodes []shardlimit.NodeState
	var log strings.Builder
	s := serve.New(serve.Limits{}, http.NotFoundHandler(), serve.Options{
		Log:   slog.New(slog.NewTextHandler(&log, nil)),
		Ready: func(context.Context) []shardlimit.NodeState { return nodes }})
	get := func(path string) (int, string) {
		w := ask(s, http.MethodGet, path, "")
		return w.Code, w.Body.String()
	}
	well, away := shardlimit.NodeState{Name: "a"}, shardlimit.NodeState{Name: "b", Err: errors.New("secret address")}
	wrong := shardlimit.NodeState{Name: "c", Err: fmt.Errorf("dial: %w", &shardlimit.ConfigError{Node: "c"})}
	const mistake = `"detail":"no node serves: a mistake in the configuration, which the log tells"`
	for _, step := range []struct {
		nodes []shardlimit.NodeState
		code  int
		says  string
	}{
		{[]shardlimit.NodeState{away, well}, 200, "ok\n"},
		{[]shardlimit.NodeState{away}, 503, `"detail":"no node answers"`},
		{[]shardlimit.NodeState{well, wrong}, 200, "ok\n"},
		{[]shardlimit.NodeState{away}, 503, `"detail":"no node answers"`},
		{[]shardlimit.NodeState{away, wrong}, 503, `"detail":"no node answers"`},
		{[]shardlimit.NodeState{wrong, wrong}, 503, mistake},
	} {
		nodes = step.nodes
		if code, text := get("/readyz"); code != step.code || !strings.Contains(text, step.says) {
			t.Errorf("%+v: %d %q", step.nodes, code, text)
		}
		if code, _ := get("/healthz"); code != 200 {
			t.Errorf("/healthz: %d", code)
		}
	}
	if text := log.String(); strings.Count(text, `node=b err="secret address"`) != 2 ||
		!strings.Contains(text, "node=c") {
		t.Errorf("the log has %s", text)
	}
	nodes = []shardlimit.NodeState{well}
	s.Leave()
	for _, path := range []string{"/readyz", "/healthz"} {
		if code, text := get(path); code != 503 || !strings.Contains(text, `"detail":"shutting down"`) {
			t.Errorf("%s while it shuts down: %d %s", path, code, text)
		}
	}
}

// A caller hears in a few words what is wrong, and nothing of addresses and of what servers say.
// The log hears of that, every ten seconds. It tells nothing of mistakes of callers.
func TestTheCauseIsForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		var log strings.Builder
		s := serve.New(serve.Limits{"l": func(string) (*shardlimit.Limiter, error) { return nil, cause }},
			http.NotFoundHandler(), serve.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		secret := errors.New("dial tcp 10.0.0.1:6379:\nWRONGPASS")
		for range 150 { // 15 s
			cause = shardlimit.ErrInvalidPermits
			checkAnswer(t, allow(s, `{"limiter": "l"}`), 400, "invalid_request")
			for _, c := range []struct {
				err  error
				says string
			}{
				{fmt.Errorf("%w\n%w", shardlimit.ErrUnavailable, secret), "shardlimit: no shard answered"},
				{fmt.Errorf("%w: %w", shardlimit.ErrClosed, secret), shardlimit.ErrClosed.Error()},
				{fmt.Errorf("%w: %w", context.Canceled, secret), "context canceled"},
				{secret, "the call cannot be decided; the log of the server says why"},
			} {
				cause = c.err
				w := allow(s, `{"limiter": "l"}`)
				checkAnswer(t, w, 503, "unavailable")
				if !strings.Contains(w.Body.String(), `"detail":"`+c.says+`"`) {
					t.Errorf("%v: %s", c.err, w.Body)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		const told = `msg="a call cannot be decided" err="dial tcp 10.0.0.1:6379:; WRONGPASS"`
		if got := log.String(); strings.Count(got, "\n") != 2 || strings.Count(got, told) != 2 {
			t.Errorf("it says\n%s", got)
		}
	})
}
