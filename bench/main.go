// Command bench measures shardlimit and its rivals against real redis-servers
// and writes what it found as raw JSON, SVG pictures, a report of everything, and
// figures in README.md and docs.
//
//	go -C bench run . -h
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is the whole program. Everything it tells goes to out.
func run(ctx context.Context, args []string, out io.Writer) error {
	j, err := parse(args, out)
	if err != nil {
		return err
	}
	return j.do(ctx)
}
