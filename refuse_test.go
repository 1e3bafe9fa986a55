package shardlimit_test

import (
	"testing"

	"github.com/redis/rueidis"
)

// refuseAll is a Redis client that must not be used: every command fails the
// test, or panics because the client behind it is nil.
type refuseAll struct {
	rueidis.Client
	tb testing.TB
}

func (r refuseAll) B() rueidis.Builder {
	r.tb.Error("a command was built before the arguments were checked")
	return rueidis.Builder{}
}

func (r refuseAll) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }
func (r refuseAll) Close()                   {}
