package grpclimit_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit/embedded"
)

// The program of the document is the one that is compiled here.
func TestTheProgramOfTheDocument(t *testing.T) {
	document, err := os.ReadFile("../docs/howto/grpc.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("internal/quickstart/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(document), "```go\n")
	shown, _, _ = strings.Cut(shown, "```")
	if _, program, _ := strings.Cut(string(file), "\n"); shown != program {
		t.Errorf("the document shows\n%s\nthe program is\n%s", shown, program)
	}
	_, body, _ := strings.Cut(shown, "\n)\n\n")
	if n := strings.Count(body, "\n"); n > 25 {
		t.Errorf("it has %d lines below its imports", n)
	}
}

// The program serves, and refuses an address that calls too often.
func TestTheProgramRuns(t *testing.T) {
	servers, err := embedded.Start(1)
	if err != nil {
		t.Fatal(err)
	}
	defer servers.Close()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	program := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "./internal/quickstart").
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), "REDIS="+servers.Addr(0), "LISTEN="+address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has ended by now
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	health, seen := grpc_health_v1.NewHealthClient(conn), map[codes.Code]int{}
	for end := time.Now().Add(time.Minute); seen[codes.OK] == 0 || seen[codes.ResourceExhausted] == 0; {
		_, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
		if seen[status.Code(err)]++; time.Now().After(end) {
			t.Fatalf("answers %v", seen)
		}
	}
}
