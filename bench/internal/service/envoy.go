package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/envoylimit"
	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// ErrMissing means that the other service cannot be had or run on this machine. The text says why.
var ErrMissing = errors.New("envoyproxy/ratelimit cannot be had")

// The module of the other service, which has no newer release than v1.4.0, and its main package.
const (
	EnvoyModule  = "github.com/envoyproxy/ratelimit"
	EnvoyVersion = "v1.4.1-0.20260122083618-3fb702589d36"
	mainPackage  = "service_cmd"
)

// envoyConns is how many connections callers share: each worker thread of an Envoy has one.
const envoyConns = 4

// config is what both services for Envoy read: a limit for each value of "user".
func (j Job) config() string {
	unit := "hour"
	if j.Per == time.Minute {
		unit = "minute"
	}
	return fmt.Sprintf("domain: bench\ndescriptors:\n"+
		"  - key: user\n    rate_limit: {unit: %s, requests_per_unit: %d}\n", unit, j.Permits)
}

// grpcCallers share a few connections.
type grpcCallers []*grpc.ClientConn

func dialEnvoy(addr string, _ int) (Callers, error) {
	var c grpcCallers
	for range envoyConns {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			c.Close()
			return nil, err
		}
		c = append(c, conn)
	}
	return c, nil
}

// Allow asks for one hit of a descriptor with one entry, whose value is the key.
func (c grpcCallers) Allow(ctx context.Context, caller int, key string) (bool, error) {
	entries := []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: key}}
	answer, err := rls.NewRateLimitServiceClient(c[caller%len(c)]).ShouldRateLimit(ctx, &rls.RateLimitRequest{
		Domain: "bench", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: entries}}})
	if err != nil {
		return false, err
	}
	switch code := answer.GetOverallCode(); code {
	case rls.RateLimitResponse_OK:
		return true, nil
	case rls.RateLimitResponse_OVER_LIMIT:
		return false, nil
	default:
		return false, fmt.Errorf("the code is %s", code)
	}
}

// Close closes the connections.
func (c grpcCallers) Close() {
	for _, conn := range c {
		_ = conn.Close()
	}
}

// EnvoyLimit is the service of the package envoylimit.
var EnvoyLimit = Kind{Name: "envoylimit", dial: dialEnvoy,
	serve: func(ctx context.Context, j Job, listener net.Listener) error {
		config, err := rules.Parse([]rules.File{{Name: "bench.yaml", Content: []byte(j.config())}})
		if err != nil {
			return err
		}
		client, err := shardlimit.New(rival.Config(j.Redis))
		if err != nil {
			return err
		}
		defer client.Close()
		service, err := envoylimit.New(client, envoylimit.Options{})
		if err != nil {
			return err
		}
		if err := service.Apply(ctx, config); err != nil {
			return err
		}
		web := grpc.NewServer()
		service.Register(web)
		context.AfterFunc(ctx, web.Stop)
		return web.Serve(listener)
	}}

// BuildEnvoy builds the other service from the module proxy, once a version, into the user's cache,
// and returns the program. The error is ErrMissing if it cannot be had.
func BuildEnvoy(ctx context.Context) (program string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // a user without a home
	}
	return buildInto(ctx, filepath.Join(cache, "shardlimit-bench", "ratelimit-"+EnvoyVersion))
}

func buildInto(ctx context.Context, folder string) (string, error) {
	program := filepath.Join(folder, mainPackage)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(folder), "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	cmd := exec.CommandContext(ctx, "go", "install", EnvoyModule+"/src/"+mainPackage+"@"+EnvoyVersion)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOBIN="+filepath.Join(work, "bin"))
	if output, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		return "", errors.Join(ctx.Err(), fmt.Errorf("%w: go install: %w: %s", ErrMissing, err, lines[len(lines)-1]))
	}
	// Whole or not at all; another run may have been faster.
	if err := os.Rename(filepath.Join(work, "bin"), folder); err != nil {
		if _, missing := os.Stat(program); missing != nil {
			return "", err
		}
	}
	return program, nil
}

// EnvoyProxy is the other service, with its defaults but for what is off: statistics, which have no
// receiver here. localCache is how many bytes it may remember keys in that are over their limit.
func EnvoyProxy(name, program string, localCache int) Kind {
	return Kind{Name: name, dial: dialEnvoy, command: func(j Job, folder string) (*exec.Cmd, error) {
		config := filepath.Join(folder, "rules", "config")
		if err := os.MkdirAll(config, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(config, "bench.yaml"), []byte(j.config()), 0o600); err != nil {
			return nil, err
		}
		host, port, err := net.SplitHostPort(j.Listen)
		if err != nil {
			return nil, err
		}
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), "GRPC_HOST="+host, "GRPC_PORT="+port, "HOST="+host, "DEBUG_HOST="+host,
			"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+j.Redis, "RUNTIME_ROOT="+folder, "RUNTIME_SUBDIRECTORY=rules",
			"RUNTIME_WATCH_ROOT=false", "USE_STATSD=false", "DISABLE_STATS=true", "LOG_LEVEL=error",
			"LOCAL_CACHE_SIZE_IN_BYTES="+strconv.Itoa(localCache))
		for _, name := range []string{"PORT", "DEBUG_PORT"} {
			port, err := server.FreePort()
			if err != nil {
				return nil, err
			}
			cmd.Env = append(cmd.Env, name+"="+strconv.Itoa(port))
		}
		return cmd, nil
	}}
}
