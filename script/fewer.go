package script

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/columns"
)

// This file is about slots of a cluster that are on their way to another server. Meanwhile a
// server answers a call that declares several keys with TRYAGAIN, without executing it, unless
// all of them exist and are there. Of a shard's keys only the head always exists: there is a
// log only while it holds something, and a ledger only while participants contend.

// errTorn tells that the keys of one shard are on two servers. The call was not executed.
var errTorn = errors.New("script: the keys are on their way to another server, and not all of them at the same one")

const (
	tornPause  = time.Millisecond // before a call is tried again whose keys are on two servers; twice as long each time
	tornPauses = 4
	mostMoving = 1024 // keys of which is remembered what was declared last
	fewerCalls = 16   // so many calls declare as few keys as the one before, until all are tried again
)

// moving remembers with how many keys calls succeeded. It costs one load while no slot moves.
type moving struct {
	some atomic.Bool
	mu   sync.Mutex
	keys map[string]declared // by head
}

type declared struct{ keys, calls int }

// known returns how many keys to declare; 0: all.
func (m *moving) known(head string) int {
	if !m.some.Load() {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d, found := m.keys[head]
	if !found {
		return 0
	}
	if d.calls--; d.calls == 0 {
		delete(m.keys, head)
	} else {
		m.keys[head] = d
	}
	m.some.Store(len(m.keys) > 0)
	return d.keys
}

// note remembers with how many keys a call succeeded.
func (m *moving) note(head string, keys int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == nil || len(m.keys) >= mostMoving {
		m.keys = map[string]declared{}
	}
	if _, found := m.keys[head]; !found {
		m.keys[head] = declared{keys, fewerCalls}
	}
	m.some.Store(true)
}

// isTorn reports whether a call was not executed because not all its keys were there.
func isTorn(err error) bool {
	var reply *rueidis.RedisError
	return errors.Is(err, errTorn) || errors.As(err, &reply) && reply.IsTryAgain()
}

// moved sends a call that declares fewer and fewer keys, until a server serves it. While a key
// is at another server than the rest no call does; that lasts as long as the cluster takes to
// move them one after the other. cause is what was answered to the call with all keys.
func (e *Endpoint) moved(ctx context.Context, number int, keys [3]string, args []string,
	cause error) ([]rueidis.RedisMessage, error) {
	all := countKeys(keys)
	for pause, pauses := tornPause, 0; ; pause *= 2 {
		for n := all - 1; n > 0; n-- {
			reply, err := e.declaring(ctx, n, number, keys, args)
			if !isTorn(err) {
				e.moving.note(keys[0], n)
				return reply, err
			}
		}
		if pauses++; all == 1 || pauses > tornPauses || !rest(ctx, pause) {
			return nil, cause
		}
		if reply, err := e.whole(ctx, number, keys, args); !isTorn(err) {
			return reply, err
		}
	}
}

// rest waits, and reports whether ctx is still alive then.
func rest(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// declaring sends a call that declares the first n keys. It does without the ledger: whoever calls
// is served as if nobody contended.
func (e *Endpoint) declaring(ctx context.Context, n, number int, keys [3]string,
	args []string) ([]rueidis.RedisMessage, error) {
	if number >= shardOperations && number < packedPrograms {
		// a record's operations know how to do without the second key
		keys[n] = ""
		return e.sendOne(ctx, &programs[number], &e.loads[number], keys, args)
	}
	p, l := &fewerPrograms[number], &e.loads[programCount+number]
	all := countKeys(keys)
	plain := append(anonymous(number, args), keys[:all]...)
	plain = append(plain, strconv.Itoa(all), "0")
	some := keys
	for i := n; i < len(some); i++ {
		some[i] = ""
	}
	reply, err := e.sendOne(ctx, p, l, some, plain)
	if !errors.Is(err, errUnsure) {
		return reply, err
	}
	exists := e.client.B().Exists().Key(keys[1]).Build()
	if there, err := e.client.Do(ctx, exists).AsInt64(); err != nil || there != 0 {
		return nil, errTorn
	}
	plain[len(plain)-1] = "1"
	if reply, err = e.sendOne(ctx, p, l, some, plain); errors.Is(err, errUnsure) {
		err = errTorn
	}
	return reply, err
}

// errUnsure tells that a shard has no head, and that nothing was done because it may have a log.
var errUnsure = errors.New("script: whether there is a log is not known")

// anonymous is a copy of the arguments of a call that nobody in particular makes, and that neither
// reads nor writes the ledger.
func anonymous(number int, args []string) []string {
	switch operation(number) {
	case takeProgram:
		args = slices.Clone(args)
		args[takeAsks] = withoutCallers(args[takeAsks])
	case reserveProgram:
		args = args[:min(len(args), reserveCaller)]
	case refundProgram:
		args = args[:min(len(args), refundCaller)]
	}
	return append(make([]string, 0, len(args)+5), args...)
}

// Where a call's arguments say who makes it.
const (
	takeAsks      = 2
	reserveCaller = 6
	refundCaller  = 2
)

// withoutCallers cuts off the callers of what TakeRequest.asks made.
func withoutCallers(asks string) string {
	groups := int(columns.Asks.Reader(asks).Number())
	from, to := columns.Asks.Bytes(), columns.Asks.Bytes()+groups*columns.Group.Bytes()
	return string(columns.Asks.Append(nil, 0, int64(groups), 0)) + asks[from:to]
}

// operation is the operation on a shard that a program carries out under its algorithm.
func operation(number int) int {
	if number >= packedPrograms {
		return (number - packedPrograms) % shardOperations
	}
	return number
}

// fewerPrograms are the operations on shards, for calls that do not declare all keys.
var fewerPrograms = func() (fewer [programCount]program) {
	first := recipe{file: "fewer", parts: []string{"fewer"}}
	lines, _ := first.assemble()
	before := strings.Join(lines, "\n") + "\n"
	for i, p := range programs {
		if i < shardOperations || i >= packedPrograms {
			fewer[i] = newProgram(p.name+" with fewer keys", before+p.text)
		}
	}
	return fewer
}()
