package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// A caller looks whether the node is connected just before the attempt of another one ends, and
// goes on just after: it takes that one's client. If it dialled, too, the first client would be
// replaced, and nobody would close it.
func TestAConnectionMadeMeanwhileIsUsedAndNotMadeAgain(t *testing.T) {
	again := func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
		t.Error("it connects again")
		return nil, errors.New("away")
	}
	n := New(Spec{Name: "n",
		Option: rueidis.ClientOption{InitAddress: []string{"n:1"}, ForceSingleClient: true, DialCtxFn: again}},
		&Settings{Clock: &clock.Clock{Base: time.Now()}, Log: slog.New(slog.DiscardHandler)})
	made := &connected{}
	n.mu.Lock()
	got := make(chan error)
	go func() { got <- n.Connect(t.Context()) }()
	for begun := time.Now(); !waitsToConnect(); runtime.Gosched() {
		if time.Since(begun) > time.Minute {
			t.Fatal("it does not wait")
		}
	}
	n.client.Store(made) // as an attempt does before it unlocks
	n.mu.Unlock()
	if err := <-got; err != nil || n.client.Load() != made || n.attempt != nil {
		t.Errorf("%v, %p is there, made was %p", err, n.client.Load(), made)
	}
}

// waitsToConnect reports whether a goroutine has looked for a client of its node in vain, and waits
// for the node's lock.
func waitsToConnect() bool {
	buf := make([]byte, 1<<20)
	for g := range bytes.SplitSeq(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
		state, _, _ := bytes.Cut(g, []byte("]"))
		if bytes.Contains(state, []byte("[sync.Mutex.Lock")) && bytes.Contains(g, []byte(".(*link).Connect(")) {
			return true
		}
	}
	return false
}
