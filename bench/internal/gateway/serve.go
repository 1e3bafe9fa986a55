package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"

	"github.com/shardlimit/shardlimit/bench/internal/load"
)

// ServeIfServer does nothing, unless this process was started as a server: then it serves until its
// standard input ends, and ends the process. Call it before anything else.
func ServeIfServer() {
	text := os.Getenv(environment)
	if text == "" {
		return
	}
	signal.Ignore(os.Interrupt) // a terminal sends it to parent and child alike; the parent decides
	out := os.NewFile(replyFile, "replies")
	if err := serve([]byte(text), os.Stdin, out); err != nil {
		_ = json.NewEncoder(out).Encode(reply{Err: err.Error()})
		fmt.Fprintln(os.Stderr, "bench gateway:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve does the job. Each line of orders asks what CPU time was used.
func serve(text []byte, orders io.Reader, out io.Writer) error {
	var j Job
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	handler, end, err := open(context.Background(), j)
	if err != nil {
		return err
	}
	defer end()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := &http.Server{Handler: handler}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(listener) }()
	replies := json.NewEncoder(out)
	err = replies.Encode(reply{Addr: listener.Addr().String()})
	for lines := bufio.NewScanner(orders); err == nil && lines.Scan(); {
		err = replies.Encode(reply{CPU: load.CPU()})
	}
	_ = web.Close()
	if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// open makes the handler of a job, with its limiter before it.
func open(ctx context.Context, j Job) (http.Handler, func(), error) {
	i := slices.IndexFunc(variants, func(v variant) bool { return v.name == j.Variant })
	if i < 0 {
		return nil, nil, fmt.Errorf("no variant is named %q", j.Variant)
	}
	limit, end, err := variants[i].open(ctx, j)
	if err != nil {
		return nil, nil, err
	}
	return limit(http.HandlerFunc(answer)), end, nil
}

// answer is what the server does for a request that is allowed.
func answer(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "ok\n") // a client that went away is its own affair
}
