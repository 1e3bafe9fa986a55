package main

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/httplimit"
)

// top --keys shows which keys serve refused most, to those with its token. Else it says what to do.
func TestTopShowsRefusedKeys(t *testing.T) {
	tokens := file(t, "tokens", "\n 0123456789abcdef \nfedcba9876543210\n")
	_, url := startServe(t, "--embedded", "--per-key", "users=1/h", "--per-key", "hosts=1/h", "--denied",
		"--token-file", tokens)
	for body, calls := range map[string]int{`{"limiter": "users", "key": "ann"}`: 3,
		`{"limiter": "users", "key": "a\u001b[2Jb"}`: 5, `{"limiter": "hosts", "key": "h"}`: 2} {
		for range calls {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/allow",
				strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer fedcba9876543210")
			request.Header.Set("Content-Type", "application/json")
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
		}
	}
	_, silent := startServe(t, "--embedded", "--per-key", "users=1/h")
	closed := httptest.NewServer(nil)
	closed.Close()
	users := "users           4           4  \"a\\x1b[2Jb\"\nusers           2           2  ann\n"
	for args, want := range map[string]string{
		"top --keys --token-file " + tokens + " --serve " + url: "limit    at least     at most  key\n" +
			"hosts           1           1  h\n" + users,
		"top --keys users --token-file " + tokens + " --serve " + url: "key\n" + users,
		"top --keys users --json --token-file " + tokens + " --serve " + url: `Z","limiters":[{"limiter":"users",` +
			`"calls":6,"keys":[{"key":"a\u001b[2Jb","calls":4,"over":0},{"key":"ann","calls":2,"over":0}]}]}` + "\n",
	} {
		if text, code := runHere(t, append(strings.Fields(args), "--count", "1")...); code != exitOK ||
			!strings.HasSuffix(text, want) {
			t.Errorf("%s ended with %d: %s", args, code, text)
		}
	}
	for args, want := range map[string]error{
		"--serve " + url: errToken, "--serve " + silent: errNotTold, "--serve " + closed.URL: errNoServe,
		"--serve " + url + "/metrics --token-file " + tokens:                       errNotTold,
		"--token-file " + file(t, "wrong", "0123456789abcdeg") + " --serve " + url: errToken,
	} {
		if text, code := runHere(t, strings.Fields("top --keys "+args)...); code != exitFailed ||
			!strings.Contains(text, "/v1/denied: "+want.Error()) || strings.Count(text, "\n") != 1 {
			t.Errorf("%s ended with %d: %s", args, code, text)
		}
	}
}

// A program that uses the library tells the same, and what goes wrong later is shown.
func TestTopShowsRefusedKeysOfAGateway(t *testing.T) {
	nodes, err := embedded.Start(1)
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.Close()
	client, err := shardlimit.New(shardlimit.Config{Nodes: nodes.Nodes()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	users, err := client.Family(t.Context(), "users", shardlimit.PerHour(1))
	if err != nil {
		t.Fatal(err)
	}
	var refused httplimit.RefusedKeys
	client.OnRefusal(refused.Hear)
	mux := http.NewServeMux()
	mux.Handle("GET /inside/v1/denied", &refused)
	limit := httplimit.New(httplimit.PerKey(users, httplimit.Header("User")), httplimit.Options{})
	mux.Handle("/", limit(http.NotFoundHandler()))
	gateway := httptest.NewServer(mux)
	defer gateway.Close()
	for range 3 {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.Header.Set("User", "ann")
		mux.ServeHTTP(httptest.NewRecorder(), request)
	}
	text, code := runHere(t, "top", "--keys", "--count", "1", "--serve", gateway.URL+"/inside")
	if code != exitOK || !strings.HasSuffix(text, "\nusers           2           2  ann\n") {
		t.Errorf("ended with %d: %s", code, text)
	}
	lost := &refusedKeys{where: "u", err: errors.Join(errNoServe, net.ErrClosed)}
	if text := lost.text(80); text != errNoServe.Error()+"; "+net.ErrClosed.Error()+"\n" {
		t.Errorf("%q", text)
	}
	if got := lost.json(); got != (missedJSON{"u", errNoServe.Error() + "; " + net.ErrClosed.Error()}) {
		t.Errorf("%+v", got)
	}
}
