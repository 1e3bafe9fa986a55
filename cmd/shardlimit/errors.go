package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/node"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a command line that cannot be obeyed; its text says what to change.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, a ...any) error { return usageError{fmt.Errorf(format, a...)} }

// errTold is a failure that has been described on standard error already.
var errTold = errors.New("failed")

func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(usageError)):
		return exitUsage
	}
	return exitFailed
}

// explain says in the words of the command line what the library reports.
func explain(err error, name string) error {
	switch {
	case errors.Is(err, shardlimit.ErrInvalidName), errors.Is(err, shardlimit.ErrInvalidLimit),
		errors.Is(err, shardlimit.ErrInvalidPermits):
		return usageError{err}
	case errors.Is(err, shardlimit.ErrNotFound):
		return fmt.Errorf("no limit %[1]q is stored there, or with --key or --family no family %[1]q; "+
			"shardlimit show lists what is there, shardlimit set creates limits", name)
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	}
	return err
}

// oneLine is what an error says, in one line without the beginning that those of the library have.
// Of an outage it is which servers cannot be reached, and why.
func oneLine(err error) string {
	if servers := unreached(err); len(servers) > 0 {
		return strings.Join(servers, "; ")
	}
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		lines = append(lines, strings.TrimPrefix(line, "shardlimit: "))
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), ": shardlimit: ", ": ")
}

// unreached are the servers that an error tells of, each once: "cannot reach ADDRESS: why".
func unreached(err error) []string {
	switch e := err.(type) { //nolint:errorlint // it looks into all that an error wraps, as errors.As does
	case *net.OpError:
		if e.Op != "listen" && e.Addr != nil {
			return []string{fmt.Sprintf("cannot reach %s: %v", e.Addr, e.Err)}
		}
	case *shardlimit.ShardError:
		found := unreached(e.Err)
		if len(found) == 0 && (errors.Is(e.Err, context.DeadlineExceeded) || errors.Is(e.Err, node.ErrAway)) {
			found = []string{e.Node + " does not answer"}
		}
		return found
	case interface{ Unwrap() error }:
		return unreached(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all []string
		for _, one := range e.Unwrap() {
			for _, text := range unreached(one) {
				if !slices.Contains(all, text) {
					all = append(all, text)
				}
			}
		}
		return all
	}
	return nil
}

// unseen is why shards did not answer; nil if all did.
func unseen(name string, s shardlimit.State) error {
	var errs []error
	for _, sh := range s.Shards {
		if sh.Err != nil {
			errs = append(errs, &shardlimit.ShardError{Limiter: name, Shard: sh.Tag, Node: sh.Node, Err: sh.Err})
		}
	}
	return errors.Join(errs...)
}
