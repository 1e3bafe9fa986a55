// Package yardstick has the script for a sliding log that is usually written.
package yardstick

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

//go:embed plain.lua
var plainSource string

var plainSHA = digest(plainSource)

// digest is the name that Redis gives a script.
func digest(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// LoadPlain makes the script of Plain known to the server of client.
func LoadPlain(ctx context.Context, client rueidis.Client) error {
	return client.Do(ctx, client.B().ScriptLoad().Script(plainSource).Build()).Error()
}

// Plain is a limit in the form in which a sliding log is usually written: a sorted
// set with a member for every permit. For one goroutine.
type Plain struct {
	key     string
	permits int64
	calls   int64
}

// NewPlain names a limit; the first take creates it.
func NewPlain(name string, permits int64) *Plain {
	return &Plain{key: "plain:" + name, permits: permits}
}

// Key is the only one it has.
func (p *Plain) Key() string { return p.key }

// Take is the command that takes a permit if fewer than all have been taken within the
// window before it. Its reply says in its first place how many it was granted.
func (p *Plain) Take(client rueidis.Client, window time.Duration) rueidis.Completed {
	p.calls++
	return client.B().Evalsha().Sha1(plainSHA).Numkeys(1).Key(p.key).Arg(
		strconv.FormatInt(p.permits, 10),
		strconv.FormatInt(window.Microseconds(), 10),
		strconv.FormatInt((2*window+time.Minute).Milliseconds(), 10),
		strconv.FormatInt(p.calls, 36),
	).Build()
}
