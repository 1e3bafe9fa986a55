package docs

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// TestCommandsOfTheFirstPages carries out, in a folder of its own, what a newcomer is told to do:
// all of getting-started, and what grpc and envoy say beside it. What is cloned is this tree, and
// what the Internet would say is in the module cache.
func TestCommandsOfTheFirstPages(t *testing.T) {
	redistest.Shared(t) // skips where there can be none
	if testing.Short() {
		t.Skip("it builds programs")
	}
	repository, err := os.Getwd()
	limittest.Must(t, err)
	page := document(t, "getting-started.md")
	blocks := regexp.MustCompile("(?ms)^```(sh|go)\n(.*?)^```$").FindAllStringSubmatch(page, -1)
	var script strings.Builder
	script.WriteString(`set -euo pipefail
git() { mkdir shardlimit; tar -C ` + repository + ` --exclude=./.git -cf - . | tar -C shardlimit -xf -; }
go() { if [ "$*" = "run ./cmd/shardlimit demo" ]; then set -- "$@" --for 2s; fi; command go "$@"; }
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
`)
	for _, block := range blocks {
		switch text := block[2]; {
		case block[1] == "sh":
			script.WriteString(text)
		case strings.HasPrefix(text, "package main"):
			fmt.Fprintf(&script, "cat > main.go <<'END'\n%sEND\n", text)
		case strings.HasPrefix(text, "func main"):
			script.WriteString("cp ../shardlimit/examples/servers/main.go .\n")
		}
	}
	script.WriteString("REDIS=127.0.0.1:7001,127.0.0.1:7002 go run .\n") // "A second run"
	for module, program := range map[string]string{
		"grpc": "cp ../shardlimit/grpclimit/internal/quickstart/main.go .\n",
		"envoy": "echo 'package main; import _ \"github.com/shardlimit/shardlimit/envoylimit\"; func main() {}' " +
			"> main.go\n",
	} {
		commands := shellBlock.FindStringSubmatch(document(t, "howto/"+module+".md"))
		if commands == nil {
			t.Fatalf("%s does not say where its module is", module)
		}
		script.WriteString(program + commands[1] +
			// instead of the newest version, which may not be here
			"go mod edit -require=google.golang.org/grpc@$(go -C ../shardlimit/" + module +
			"limit list -m -f '{{.Version}}' google.golang.org/grpc)\ngo mod tidy\ngo build -o program .\n")
	}
	text := script.String()
	for _, port := range []string{"7001", "7002"} {
		text = strings.ReplaceAll(text, port, freePort(t))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", "-c", text)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = t.TempDir(), &out, os.Stderr, 10*time.Second
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOFLAGS=-buildvcs=false", "GOWORK=",
		"GOBIN="+filepath.Join(cmd.Dir, "bin"))
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	granted := regexp.MustCompile(`(?m)^(true|false) .* retry after `).FindAllStringSubmatch(out.String(), -1)
	said := ""
	for _, g := range granted {
		said += g[1][:1]
	}
	if said != "ttfttfttffff" { // the example, the program, with servers, and a second time
		t.Errorf("%s: %s", said, out.String())
	}
}

// freePort is a port at which nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	limittest.Must(t, err)
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
