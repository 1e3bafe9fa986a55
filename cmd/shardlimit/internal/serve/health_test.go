package serve_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
)

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
