package rival

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/history"
)

// ErrMissing means that this machine lacks what a rival needs. Scenarios leave
// the rival out and say so.
var ErrMissing = errors.New("cannot be measured on this machine")

// Redisson is the real RRateLimiter in a JVM of its own, which makes its own
// load: through a pipe per decision one would measure the pipe. It is therefore
// not one of All. Calls are made one at a time; they may come from any goroutine.
type Redisson struct {
	Version string // of Redisson
	limit   Limit
	*jvm
}

// RedissonName is its name in results.
const RedissonName = "Redisson"

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
	classes := filepath.Join(dir, "classes") + string(os.PathListSeparator) + filepath.Join(dir, "jars", "*")
	jvm, err := startJVM(exec.Command(java, "-cp", classes, "Driver"))
	if err != nil {
		return nil, fmt.Errorf("start the JVM: %w", err)
	}
	r := &Redisson{limit: limit, jvm: jvm}
	words, err := r.ask(ctx, nil, "open %s %d", addr, clients)
	if err != nil {
		r.Close()
		return nil, err
	}
	r.Version = strings.Join(words, " ")
	return r, nil
}

// Sized is the same JVM with another size of the limits that are new to it. It
// ends with the first one.
func (r *Redisson) Sized(limit Limit) *Redisson {
	return &Redisson{Version: r.Version, limit: limit, jvm: r.jvm}
}

// Limiter declares the limit. Its Allow goes through a pipe: good for a test of
// what it decides, not of how fast.
func (r *Redisson) Limiter(ctx context.Context, name string) (Allow, error) {
	if err := r.declare(ctx, name); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (bool, error) {
		words, err := r.ask(ctx, nil, "allow %s", name)
		return err == nil && len(words) == 1 && words[0] == "true", err
	}, nil
}

func (r *Redisson) declare(ctx context.Context, name string) error {
	_, err := r.ask(ctx, nil, "limit %s %d %d", name, r.limit.Permits, r.limit.Per.Milliseconds())
	return err
}

// RedissonKeys are the keys of a limit: its settings, what is free, and an entry for each call
// that was let through.
func RedissonKeys(name string) []string {
	return []string{name, "{" + name + "}:value", "{" + name + "}:permits"}
}

// Shorten makes the window of a limit end earlier, by its settings in Redis, which its script
// reads with each call: what was used before that has left it then, without a wait.
func (r *Redisson) Shorten(ctx context.Context, client rueidis.Client, name string, window time.Duration) error {
	_, err := client.Do(ctx,
		client.B().Hset().Key(name).FieldValue().FieldValue("interval",
			strconv.FormatInt(window.Milliseconds(), 10)).Build()).AsInt64()
	return err
}

// RedissonLoad is what a closed loop found.
type RedissonLoad struct {
	Elapsed, CPU            time.Duration // CPU of the whole JVM
	Allowed, Denied, Failed int64
	P50, P99, P999          time.Duration // of a call
}

// Decisions are the calls that were answered.
func (l RedissonLoad) Decisions() int64 { return l.Allowed + l.Denied }

// Load calls the first client from that many threads, each as fast as it is
// answered, first for warm, then, counted, for span.
func (r *Redisson) Load(ctx context.Context, name string, threads int, warm, span time.Duration) (RedissonLoad, error) {
	if err := r.declare(ctx, name); err != nil {
		return RedissonLoad{}, err
	}
	words, err := r.ask(ctx, nil, "load %s %d %d %d", name, threads, warm.Milliseconds(), span.Milliseconds())
	if err != nil {
		return RedissonLoad{}, err
	}
	n, err := numbers(words, 8)
	if err != nil {
		return RedissonLoad{}, err
	}
	return RedissonLoad{
		Elapsed: time.Duration(n[0]), CPU: time.Duration(n[1]),
		Allowed: n[2], Denied: n[3], Failed: n[4],
		P50: time.Duration(n[5]), P99: time.Duration(n[6]), P999: time.Duration(n[7]),
	}, nil
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
	rates []float64) (RedissonOffer, error) {
	var o RedissonOffer
	if err := r.declare(ctx, name); err != nil {
		return o, err
	}
	command := fmt.Sprintf("offer %s %d %d", name, seed, span.Milliseconds())
	for _, rate := range rates {
		command += " " + strconv.FormatFloat(rate, 'f', 3, 64)
	}
	words, err := r.ask(ctx, func(line string) error {
		n, err := numbers(strings.Fields(line), 4)
		if err != nil {
			return err
		}
		c := RedissonCall{Start: n[0], End: n[1], Who: int(n[2]), Allowed: n[3] == 1}
		o.Answered = append(o.Answered, c)
		if c.Allowed {
			o.Admitted = append(o.Admitted, history.Op{Start: c.Start, End: c.End, Permits: 1})
		}
		return nil
	}, "%s", command)
	if err != nil {
		return o, err
	}
	n, err := numbers(words, 3)
	if err == nil {
		o.Calls, o.Denied, o.Failed = n[0], n[1], n[2]
	}
	return o, err
}

// numbers reads exactly count integers.
func numbers(words []string, count int) ([]int64, error) {
	if len(words) != count {
		return nil, fmt.Errorf("%q has %d words, want %d", words, len(words), count)
	}
	ns := make([]int64, count)
	for i, word := range words {
		var err error
		if ns[i], err = strconv.ParseInt(word, 10, 64); err != nil {
			return nil, err
		}
	}
	return ns, nil
}
