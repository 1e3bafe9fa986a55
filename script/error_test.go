package script

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Each server says in its own words that a script ended in some line. Then nobody knows what it had
// written. What a server says before it runs a script names no line: nothing was executed, and the
// same permits may be asked for elsewhere. Callers read the same words in both cases.
func TestAScriptThatEndedInSomeLineMayHaveWritten(t *testing.T) {
	const sum = "7f2a0f06686fdf1dcc7a8f420593eac02a1da826"
	const (
		cannot = "The user executing the script can't run this command or subcommand"
		denied = "ACL failure in script: User u has no permissions to run the 'zadd' command"
		full   = "OOM command not allowed when used memory > 'maxmemory'."
		fixed  = "READONLY You can't write against a read only replica."
		wrong  = "WRONGTYPE Operation against a key holding the wrong kind of value"
	)
	old := func(text string) func(int) string { // two lines of the script, one of them with a blank
		return func(line int) string {
			return fmt.Sprintf("ERR Error running script (call to f_%s): @user_script:%d: @user_script: %d: %s",
				sum, line, line, text)
		}
	}
	returned := func(text string) func(int) string { // by the script, which had caught it
		return func(line int) string { return fmt.Sprintf("@user_script: %d: %s", line, text) }
	}
	behind := func(text string) func(int) string {
		return func(line int) string { return fmt.Sprintf("%s script: %s, on @user_script:%d.", text, sum, line) }
	}
	module := func(text string) func(int) string { // the sum is left out
		return func(line int) string { return fmt.Sprintf("%s script: on @user_script:%d.", text, line) }
	}
	m := miniredis.RunT(t)
	endpoint := NewEndpoint(miniClient(t, m))
	for name, c := range map[string]struct {
		text func(line int) string
		said string
	}{
		"Redis 6.2, permission":           {old(cannot), cannot},
		"Redis 6.2, memory":               {old("-" + full + "  "), full}, // the end of the line became blanks
		"Redis 6.2, permission, returned": {returned(cannot), cannot},
		"Redis 6.2, memory, returned":     {returned("-" + full + "  "), full},
		"Redis 6.2, a command's own error": {func(line int) string {
			return fmt.Sprintf("ERR Error running script (call to f_%s): @user_script:%d: %s", sum, line, wrong)
		}, wrong},
		"Redis 7.0, permission":            {behind("ERR " + cannot), cannot},
		"Redis 7, Valkey 8, memory":        {behind(full), full},
		"Redis 7.0, replica":               {behind(fixed), fixed},
		"Redis 7.0, a command's own error": {behind(wrong), wrong},
		"Redis 7.2, Valkey 8, permission":  {behind("ERR " + denied), denied},
		"Valkey 9, permission":             {module("ERR " + denied), denied},
		"Valkey 9, memory":                 {module(full), full},
	} {
		for _, line := range []int{0, 1, 1000} {
			text, sure := c.text(line), false
			if line == 0 { // the server refuses to run it
				text, sure = c.said, c.said == full || c.said == fixed
			}
			m.Server().SetPreHook(func(peer *server.Peer, cmd string, _ ...string) bool {
				if cmd != "EVALSHA" && cmd != "EVAL" {
					return false
				}
				peer.WriteError(text)
				return true
			})
			_, err := endpoint.Take(context.Background(), ShardKeys("", "t", "limit"),
				ones(proposal(t, 1, 1, time.Second), 1))
			if NotExecuted(err) != sure {
				t.Errorf("%s, line %d: surely not executed: %t, %v", name, line, !sure, err)
			}
			if said, ok := Said(err); !ok || said != c.said {
				t.Errorf("%s, line %d: %q, want %q", name, line, said, c.said)
			}
		}
	}
}
