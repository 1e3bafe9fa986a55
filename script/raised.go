package script

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// This file reads the texts of errors, which differ from server to server.

// A script that fails names its line, as "@user_script:12" or, before Redis 7, "@user_script: 12".
var (
	atLine  = regexp.MustCompile(`@user_script: ?(\d+)`)
	framing = regexp.MustCompile(`^(?:(?:ERR )?Error running script \(call to \w+\): )?(?:@user_script: ?\d+: )+-?`)
	trailer = regexp.MustCompile(` script: (?:[0-9a-f]{40}, )?on @user_script:\d+\.$`)
)

// writes finds the first command of a script that can write.
var writes = regexp.MustCompile(`redis\.p?call\((?:'(?:SET|SETRANGE|PEXPIRE|DEL|HSET|ZADD|ZREM|ZREMRANGEBYSCORE)'|unpack\()`)

// firstWrite returns the line of a script's text with the first command that can write.
func firstWrite(text string) int {
	at := writes.FindStringIndex(text)
	if at == nil {
		return strings.Count(text, "\n") + 2
	}
	return strings.Count(text[:at[0]], "\n") + 1
}

// raised tells what an error means that ended a script, if it did: one before the first line that
// can write has left everything as it was. Scripts never go back to an earlier line after that, but
// for the one for many shards: what its loop raises is caught there, section by section.
func (p *program) raised(err error) error {
	reply, ok := rueidis.IsRedisErr(err)
	if !ok {
		return err
	}
	text := reply.Error()
	line := atLine.FindStringSubmatch(text)
	if line == nil {
		return err
	}
	if n, err := strconv.Atoi(line[1]); err == nil && n < p.firstWrite {
		return &RefusedError{Reason: cleaned(text)}
	}
	return &brokenError{said: cleaned(text), program: p.name}
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
