// Package yardstick has what the script of shardlimit is held against: the fastest
// script for a sliding log that we know of (Log), kept to the least that a decision needs,
// and the one that is usually written (Plain).
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

//go:embed ring.lua
var source string

var sha = digest(source)

// digest is the name that Redis gives a script.
func digest(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// Load makes the script known to the server of client.
func Load(ctx context.Context, client rueidis.Client) error {
	return client.Do(ctx, client.B().ScriptLoad().Script(source).Build()).Error()
}

// Log is a limit with a single shard.
type Log struct {
	key     string
	permits string
	window  string // us
	keep    string // ms
}

// New names a log; the first take creates it.
func New(name string, permits int64, window time.Duration) *Log {
	return &Log{
		key:     "yardstick:" + name,
		permits: strconv.FormatInt(permits, 10),
		window:  strconv.FormatInt(window.Microseconds(), 10),
		keep:    strconv.FormatInt((2*window + time.Second).Milliseconds(), 10),
	}
}

// Take is the command that takes n permits, all or nothing. Its reply says in its
// third place how many were granted.
func (l *Log) Take(client rueidis.Client, n int64) rueidis.Completed { return l.takeAt(client, n, "") }

func (l *Log) takeAt(client rueidis.Client, n int64, now string) rueidis.Completed {
	return client.B().Evalsha().Sha1(sha).Numkeys(1).Key(l.key).
		Arg("1", l.permits, l.window, l.keep, strconv.FormatInt(n, 10), now).Build()
}
