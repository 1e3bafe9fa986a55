package grpclimit_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// The program serves, and refuses an address that calls too often.
func TestTheProgramRuns(t *testing.T) {
	servers, err := embedded.Start(1)
	limittest.Must(t, err)
	defer servers.Close()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	limittest.Must(t, err)
	address := listener.Addr().String()
	_ = listener.Close()
	program := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "./internal/quickstart").
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), "REDIS="+servers.Addr(0), "LISTEN="+address)
	limittest.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has ended by now
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	limittest.Must(t, err)
	defer func() { _ = conn.Close() }()
	health, seen := grpc_health_v1.NewHealthClient(conn), map[codes.Code]int{}
	for end := time.Now().Add(time.Minute); seen[codes.OK] == 0 || seen[codes.ResourceExhausted] == 0; {
		_, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
		if seen[status.Code(err)]++; time.Now().After(end) {
			t.Fatalf("answers %v", seen)
		}
	}
}
