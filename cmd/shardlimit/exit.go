package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/shardlimit/shardlimit"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a command line that cannot be obeyed; its text says what to change.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// oneLine is what an error says, in one line without the beginning that those of the library have.
// Of an outage it is which servers cannot be reached, and why.
func oneLine(err error) string {
	op := (*net.OpError)(nil)
	var said saidError
	if errors.As(err, &said) { // it has the causes in it
		return plainText(err)
	}
	if servers := unreached(err); len(servers) > 0 {
		return strings.Join(servers, "; ")
	}
	switch {
	case !errors.Is(err, shardlimit.ErrUnavailable):
	case errors.As(err, &op):
		return fmt.Sprintf("Redis does not answer: %v", op)
	case errors.Is(err, context.DeadlineExceeded):
		return "Redis does not answer in time; look at its servers and the way there"
	}
	return plainText(err)
}

func usagef(format string, a ...any) error { return usageError{fmt.Errorf(format, a...)} }

// saidError is a failure in words that say all there is to say.
type saidError struct{ error }

func saidf(format string, a ...any) error { return saidError{fmt.Errorf(format, a...)} }

// errTold is a failure that has been described on standard error already.
var errTold = errors.New("failed")

func exitCode(err error) int {
	var usage usageError
	var ran exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &ran):
		return int(ran)
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailed
}

// exitError is the exit code of a command that was run.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
