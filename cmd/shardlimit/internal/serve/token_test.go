package serve_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
	"github.com/shardlimit/shardlimit/httplimit"
)

func TestTokens(t *testing.T) {
	all, err := serve.ParseTokens([]byte("\n# of ann, until May\n  first-token-0123456 \nsecond-token-012345\n"))
	if err != nil || len(all) != 2 {
		t.Fatalf("%d tokens, %v", len(all), err)
	}
	for header, ok := range map[string]bool{
		"Bearer first-token-0123456": true, "bearer second-token-012345": true, "Bearer  first-token-0123456": true,
		"": false, "Bearer": false, "Bearer ": false, "first-token-0123456": false, "Basic first-token-0123456": false,
		"Bearer first-token-012345": false, "Bearer first-token-01234567": false,
		"Bearer first-token-0123456\nsecond-token-012345": false,
	} {
		if all.Allow(header) != ok {
			t.Errorf("%q: %v", header, !ok)
		}
	}
	if !serve.Tokens(nil).Allow("") {
		t.Error("without tokens nobody is let in")
	}
	for text, says := range map[string]string{"": "no token", " \n\n": "no token",
		"# 0123456789abcdef": "no token",
		"\nsecret-word":      "line 2: the token has 11"} {
		_, err := serve.ParseTokens([]byte(text))
		if err == nil || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Permits and metrics are for those who bear a token; whether the server lives, anybody may ask.
func TestATokenIsAskedFor(t *testing.T) {
	tokens, err := serve.ParseTokens([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	s := serve.New(serve.Limits{}, http.NotFoundHandler(), serve.Options{Tokens: tokens,
		Ready: func(context.Context) []shardlimit.NodeState { return nil }, Denied: &httplimit.RefusedKeys{}})
	for _, step := range []struct {
		method, path, token string
		code                int
	}{
		{http.MethodPost, "/v1/allow", "", 401}, {http.MethodPost, "/v1/allow", "Bearer 0123456789abcdeg", 401},
		{http.MethodPost, "/v1/allow", "Bearer 0123456789abcdef", 404},
		{http.MethodGet, "/metrics", "", 401}, {http.MethodGet, "/metrics", "Bearer 0123456789abcdef", 404},
		{http.MethodGet, "/v1/denied", "", 401}, {http.MethodGet, "/v1/denied", "Bearer 0123456789abcdef", 200},
		{http.MethodPost, "/v1/denied", "", 405},
		{http.MethodGet, "/healthz", "", 200}, {http.MethodGet, "/readyz", "", 200},
	} {
		w := ask(s, step.method, step.path, `{"limiter":"x"}`, "Authorization", step.token)
		if w.Code != step.code || (w.Code == 401) != (w.Header().Get("WWW-Authenticate") == "Bearer") {
			t.Errorf("%+v: %d %q", step, w.Code, w.Header())
		}
	}
}
