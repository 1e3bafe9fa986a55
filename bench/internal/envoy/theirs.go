package envoy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// The module of the other service, which has no newer release than v1.4.0, and its main package.
const (
	Module        = "github.com/envoyproxy/ratelimit"
	ModuleVersion = "v1.4.1-0.20260122083618-3fb702589d36"
	mainPackage   = "service_cmd"
)

// Build builds the other service from the module proxy, once a version, into the user's cache, and
// returns the program. The error is ErrMissing if it cannot be had.
func Build(ctx context.Context) (program string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // a user without a home
	}
	return buildInto(ctx, filepath.Join(cache, "shardlimit-bench", "ratelimit-"+ModuleVersion))
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
	var output strings.Builder
	cmd := exec.CommandContext(ctx, "go", "install", Module+"/src/"+mainPackage+"@"+ModuleVersion)
	cmd.Dir, cmd.Stdout, cmd.Stderr = work, &output, &output
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOBIN="+filepath.Join(work, "bin"))
	if err := cmd.Run(); err != nil {
		return "",
			errors.Join(ctx.Err(), fmt.Errorf("%w: go install: %w: %s", ErrMissing, err, lastLine(output.String())))
	}
	// Whole or not at all; another run may have been faster.
	if err := os.Rename(filepath.Join(work, "bin"), folder); err != nil {
		if _, missing := os.Stat(program); missing != nil {
			return "", err
		}
	}
	return program, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// Theirs is the other service, with its defaults but for what is off: statistics, which have no
// receiver here. localCache is how many bytes it may remember keys in that are over their limit.
func Theirs(name, program string, localCache int) Kind {
	return Kind{Name: name, command: func(j Job, folder string) (*exec.Cmd, error) {
		config := filepath.Join(folder, "rules", "config")
		if err := os.MkdirAll(config, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(config, "bench.yaml"), []byte(j.Config), 0o600); err != nil {
			return nil, err
		}
		host, port, found := strings.Cut(j.Listen, ":")
		if !found {
			return nil, fmt.Errorf("no port in %q", j.Listen)
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
