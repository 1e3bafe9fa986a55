package rival

import (
	"bufio"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/internal/history"
)

// RedissonName is its name in results.
const RedissonName = "Redisson"

// ErrMissing means that this machine lacks what a rival needs. Scenarios leave
// the rival out and say so.
var ErrMissing = errors.New("cannot be measured on this machine")

//go:embed redisson/pom.xml redisson/src
var redissonSource embed.FS

// Redisson is the real RRateLimiter in a JVM of its own, which makes its own
// load: through a pipe per decision one would measure the pipe. It is therefore
// not one of All. Calls are made one at a time; they may come from any goroutine.
type Redisson struct {
	Version string // of Redisson
	limit   Limit
	cmd     *exec.Cmd
	done    <-chan struct{}
	mu      sync.Mutex // for one command and its answer
	in      io.WriteCloser
	out     *bufio.Reader
	from    *os.File // under out
	stderr  strings.Builder
}

// OpenRedisson builds the Java program if this has not been done before, starts
// it and connects that many clients. The error is ErrMissing where there is no
// JVM or no Maven, or where Maven cannot build it.
func OpenRedisson(ctx context.Context, addr string, limit Limit, clients int) (*Redisson, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("%w: no JVM: %w", ErrMissing, err)
	}
	dir, err := buildRedisson(ctx)
	if err != nil {
		return nil, err
	}
	from, to, err := os.Pipe() // not StdoutPipe: Wait would close it under the reader
	if err != nil {
		return nil, err
	}
	defer to.Close()
	classes := filepath.Join(dir, "classes") + string(os.PathListSeparator) + filepath.Join(dir, "jars", "*")
	r := &Redisson{limit: limit, cmd: exec.Command(java, "-cp", classes, "Driver"), from: from,
		out: bufio.NewReader(from)}
	r.cmd.Stdout, r.cmd.Stderr, r.cmd.WaitDelay = to, &r.stderr, time.Second
	if r.in, err = r.cmd.StdinPipe(); err == nil {
		r.done, err = server.Child(r.cmd)
	}
	if err != nil {
		_ = from.Close()
		return nil, fmt.Errorf("start the JVM: %w", err)
	}
	words, err := r.ask(ctx, nil, fmt.Sprintf("open %s %d", addr, clients))
	if err != nil {
		r.Close()
		return nil, err
	}
	r.Version = strings.Join(words, " ")
	return r, nil
}

// Close ends the JVM and waits for it.
func (r *Redisson) Close() {
	_ = r.cmd.Process.Kill()
	<-r.done
	_ = r.from.Close()
}

// RedissonOffer is what an open loop found.
type RedissonOffer struct {
	Admitted              []history.Op // by the JVM's monotonic clock
	Answered              []RedissonCall
	Calls, Denied, Failed int64
}

// RedissonCall is a call that was answered.
type RedissonCall struct {
	Start, End int64 // ns, by the JVM's monotonic clock
	Who        int   // the place of its rate
	Allowed    bool
}

// Offer makes calls at each of the rates, in calls per second, whatever comes back:
// at random (Poisson) if the seed is positive, evenly if it is 0. The clients are
// dealt out to the rates in turn.
func (r *Redisson) Offer(ctx context.Context, name string, seed uint64, span time.Duration,
	rates []float64) (o RedissonOffer, err error) {
	declare := fmt.Sprintf("limit %s %d %d", name, r.limit.Permits, r.limit.Per.Milliseconds())
	if _, err := r.ask(ctx, nil, declare); err != nil {
		return o, err
	}
	command := fmt.Sprintf("offer %s %d %d", name, seed, span.Milliseconds())
	for _, rate := range rates {
		command += " " + strconv.FormatFloat(rate, 'f', 3, 64)
	}
	words, err := r.ask(ctx, func(line string) error {
		var allowed int
		var c RedissonCall
		if _, err := fmt.Sscan(line, &c.Start, &c.End, &c.Who, &allowed); err != nil {
			return err
		}
		c.Allowed = allowed == 1
		o.Answered = append(o.Answered, c)
		if c.Allowed {
			o.Admitted = append(o.Admitted, history.Op{Start: c.Start, End: c.End, Permits: 1})
		}
		return nil
	}, command)
	if err == nil {
		_, err = fmt.Sscan(strings.Join(words, " "), &o.Calls, &o.Denied, &o.Failed)
	}
	return o, err
}

// ask sends a command and returns the words that follow "ok" in its answer. The
// lines before that go to each. If ctx ends first, the JVM is ended.
func (r *Redisson) ask(ctx context.Context, each func(line string) error, command string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer context.AfterFunc(ctx, func() { _ = r.cmd.Process.Kill() })()
	words, err := r.exchange(command, each)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, io.EOF):
		<-r.done
		return nil, fmt.Errorf("the JVM ended at %q: %s: %s", command, r.cmd.ProcessState,
			strings.TrimSpace(r.stderr.String()))
	case err != nil:
		return nil, fmt.Errorf("%q to the JVM: %w", command, err)
	}
	return words, nil
}

func (r *Redisson) exchange(command string, each func(line string) error) ([]string, error) {
	if _, err := io.WriteString(r.in, command+"\n"); err != nil {
		return nil, io.EOF // nobody reads any more
	}
	for {
		line, err := r.out.ReadString('\n')
		if err != nil {
			return nil, err
		}
		line = strings.TrimSpace(line)
		verdict, rest, _ := strings.Cut(line, " ")
		switch {
		case verdict == "ok":
			return strings.Fields(rest), nil
		case verdict == "error" || each == nil:
			return nil, errors.New(line)
		}
		if err := each(line); err != nil {
			return nil, err
		}
	}
}

// buildRedisson compiles the Java program once a version of its source and
// returns the folder with classes and jars, which is in the user's cache.
func buildRedisson(ctx context.Context) (string, error) {
	source, err := fs.Sub(redissonSource, "redisson")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	if err := fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(source, path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return err
	}); err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // a user without a home
	}
	cache = filepath.Join(cache, "shardlimit-bench")
	built := filepath.Join(cache, fmt.Sprintf("redisson-%x", sum.Sum(nil)[:6]))
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
	cmd := exec.CommandContext(ctx, mvn, "--quiet", "--batch-mode", "--no-transfer-progress", "process-classes")
	cmd.Dir = work
	if output, err := cmd.CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(string(output), "\n")
		return "", errors.Join(ctx.Err(), fmt.Errorf("%w: mvn: %w: %s", ErrMissing, err, first))
	}
	// Whole or not at all; another run may have been faster.
	if err := os.Rename(filepath.Join(work, "target"), built); err != nil {
		if _, missing := os.Stat(built); missing != nil {
			return "", err
		}
	}
	return built, nil
}
