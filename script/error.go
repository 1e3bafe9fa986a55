package script

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

var (
	// ErrForeignState tells that a key of ours holds something that is not ours or is damaged.
	// Nothing was overwritten. See [StateError].
	ErrForeignState = errors.New("script: foreign state under our key")
	// ErrMalformedReply tells that a server answered what none of our scripts answers. The script
	// may have been executed.
	ErrMalformedReply = errors.New("script: malformed reply")
	// ErrInvalidRequest tells that a request has no key, or cannot be. Nothing was sent.
	ErrInvalidRequest = errors.New("script: invalid request")
)

// StateError names the key that holds foreign or damaged state. It matches [ErrForeignState].
type StateError struct {
	Key    string
	Detail string
}

func (e *StateError) Error() string {
	return fmt.Sprintf("%v: %q: %s", ErrForeignState, e.Key, e.Detail)
}

// Is reports whether target is [ErrForeignState].
func (e *StateError) Is(target error) bool { return target == ErrForeignState }

// RefusedError tells that the server refused a command of a script (out of memory, read-only, too
// few replicas, no permission, ...) before the script had written anything.
type RefusedError struct {
	Reason string // the server's own words
}

func (e *RefusedError) Error() string {
	return "script: the server refused, and nothing was written: " + e.Reason
}

// unsentError tells that the command never left this process.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return "script: not sent: " + e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

func invalid(format string, args ...any) error {
	return &unsentError{fmt.Errorf("%w: %s", ErrInvalidRequest, fmt.Sprintf(format, args...))}
}

// refusals begin the error replies that a server gives before it runs a script, or before a
// script's first write.
var refusals = [...]string{
	"NOSCRIPT", "LOADING", "CLUSTERDOWN", "TRYAGAIN", "BUSY ", "READONLY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN",
	"MOVED", "ASK ", "NOAUTH", "NOPERM", "WRONGPASS", "DENIED", "max number of clients",
}

// NotExecuted reports whether the command that failed with err surely was not executed, so that the
// same permits may be asked for elsewhere. A lost connection, a timeout, a context that ended while
// the command was under way and anything unknown give false: the command may have been executed. So
// does [rueidis.ErrClosing]: Close gives it also to commands that are already written to the
// connection.
func NotExecuted(err error) bool {
	if errors.As(err, new(*brokenError)) {
		return false
	}
	var dial *net.OpError
	if errors.As(err, new(*unsentError)) || errors.As(err, new(*RefusedError)) || errors.Is(err, ErrForeignState) ||
		errors.Is(err, rueidis.ErrNoSlot) || errors.As(err, &dial) && dial.Op == "dial" {
		return true
	}
	var reply *rueidis.RedisError
	if errors.As(err, &reply) {
		said := reply.Error()
		return slices.ContainsFunc(refusals[:], func(begins string) bool { return strings.HasPrefix(said, begins) })
	}
	return false
}

// What servers put around what they say of a script: Redis 6.2 before it, newer ones behind it.
var (
	atLine  = regexp.MustCompile(`@user_script: ?\d+`)
	framing = regexp.MustCompile(`^(?:(?:ERR )?Error running script \(call to \w+\): )?(?:@user_script: ?\d+: )+-?`)
	trailer = regexp.MustCompile(` script: (?:[0-9a-f]{40}, )?on @user_script:\d+\.$`)
)

// raised tells of an error reply that names a line of the script that it comes from the midst of
// it: the script may have written.
func (p *program) raised(err error) error {
	if reply, ok := rueidis.IsRedisErr(err); ok && atLine.MatchString(reply.Error()) {
		return &brokenError{said: cleaned(reply.Error()), program: p.name}
	}
	return err
}

// brokenError is what ended a script, or a section of one, that may have written.
type brokenError struct{ said, program string }

func (e *brokenError) Error() string { return "script: " + e.program + " failed: " + e.said }

// Said returns what a server answered in place of a reply, without the "ERR" that begins texts
// that have no code of their own; ok is false if err is no server's answer.
func Said(err error) (text string, ok bool) {
	var refused *RefusedError
	var broken *brokenError
	var reply *rueidis.RedisError
	switch {
	case errors.As(err, &refused):
		text = refused.Reason
	case errors.As(err, &broken):
		text = broken.said
	case errors.As(err, &reply):
		text = cleaned(reply.Error())
	default:
		return "", false
	}
	return strings.TrimPrefix(text, "ERR "), true
}

// cleaned is what a server said, without the line of the script that Redis 6.2 puts before it and
// newer ones behind it, and without the rest of a protocol that Redis 6.2 leaves in it.
func cleaned(text string) string {
	text = strings.TrimSpace(text)
	text = framing.ReplaceAllString(text, "")
	return strings.TrimSpace(trailer.ReplaceAllString(text, ""))
}
