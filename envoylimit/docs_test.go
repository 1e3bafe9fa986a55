package envoylimit_test

import (
	"os"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/envoylimit"
	"github.com/shardlimit/shardlimit/envoylimit/rules"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// The page of errors shows the text of a mistake in a configuration.
func TestTheErrorOfTheDocument(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/errors.md")
	limittest.Must(t, err)
	mistake := rules.Error{File: "f.yaml", Line: 7, What: "what is wrong", Do: "what to do"}
	if !strings.Contains(string(page), "`"+mistake.Error()+"`") {
		t.Errorf("the page does not show %s", mistake.Error())
	}
}

// The configuration of the document does what it says.
func TestTheConfigurationOfTheDocument(t *testing.T) {
	document, err := os.ReadFile("../docs/howto/envoy.md")
	limittest.Must(t, err)
	_, shown, _ := strings.Cut(string(document), "```yaml\n")
	shown, _, _ = strings.Cut(shown, "```")
	play(t, start(t, connect(t), shown, envoylimit.Options{}), []step{
		{ask("shop", "remote_address=192.0.2.66"), "OVER_LIMIT over:0"},
		{ask("shop", "remote_address=192.0.2.7"), "OK ok:9"},
		{ask("shop", "remote_address=192.0.2.8"), "OK ok:9"},
		{ask("shop", "user=ann,path=/orders/1"), "OK ok:99"},
		{ask("shop", "user=ann,path=/orders/2", "user=ann"), "OK ok:98 ok:599"},
		{ask("shop", "partner=x"), "OK ok:4999"},
	})
}
