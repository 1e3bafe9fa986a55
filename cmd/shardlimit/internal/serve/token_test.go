package serve_test

import (
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
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
