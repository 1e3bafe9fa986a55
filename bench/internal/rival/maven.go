package rival

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/shardlimit/shardlimit/bench/internal/server"
)

//go:embed redisson/pom.xml redisson/src
var redissonSource embed.FS

// buildRedisson compiles the Java program once a version of its source and
// returns the folder with classes and jars, which is in the user's cache.
func buildRedisson(ctx context.Context) (string, error) {
	source, err := fs.Sub(redissonSource, "redisson")
	if err != nil {
		return "", err
	}
	digest, err := digestOf(source)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // a user without a home
	}
	cache = filepath.Join(cache, "shardlimit-bench")
	built := filepath.Join(cache, "redisson-"+digest)
	if _, err := os.Stat(built); err == nil {
		return built, nil
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("%w: no Maven: %w", ErrMissing, err)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(work, source); err != nil {
		return "", err
	}
	if err := compile(ctx, mvn, work); err != nil {
		return "", err
	}
	// Whole or not at all; another run may have been faster.
	if err := os.Rename(filepath.Join(work, "target"), built); err != nil {
		if _, missing := os.Stat(built); missing != nil {
			return "", err
		}
	}
	return built, nil
}

// digestOf is short and differs between sources.
func digestOf(source fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(source, path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)[:6]), err
}

func compile(ctx context.Context, mvn, dir string) error {
	var output strings.Builder
	cmd := exec.Command(mvn, "--quiet", "--batch-mode", "--no-transfer-progress", "process-classes")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &output, &output
	done, err := server.Child(cmd)
	if err != nil {
		return err
	}
	select {
	case <-done:
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		<-done
		return ctx.Err()
	}
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("%w: %w", ErrMissing, mavenError(output.String()))
	}
	return nil
}

// mavenError is the first line in which Maven complains.
func mavenError(output string) error {
	for line := range strings.Lines(output) {
		if strings.Contains(line, "ERROR") {
			return errors.New("mvn: " + strings.TrimSpace(line))
		}
	}
	return errors.New("mvn failed and did not say why")
}
