package script

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// Endpoint sends scripts to one Redis endpoint: a standalone node, a sentinel set, or one slot
// range of a cluster. It is safe for concurrent use and holds no resources of its own; the client
// stays the caller's.
//
// Commands go out as writes that rueidis never re-sends after a lost connection. The one exception
// is rueidis' ClientOption.ConnLifetime, after which even such commands are sent again: clients
// given to an Endpoint must not set it.
type Endpoint struct {
	client rueidis.Client
	loaded [programCount]atomic.Bool // the text of each script was brought
}

// NewEndpoint returns an Endpoint over client, which must outlive it.
func NewEndpoint(client rueidis.Client) *Endpoint { return &Endpoint{client: client} }

var errNoKey = invalid("a shard without a name")

// probeText writes a key that is gone a second later, and reads it, by the commands without which a
// take fails.
const probeText = `for _, command in ipairs({{'TIME'}, {'SET', KEYS[1], '1', 'PX', '1000'}, {'GET', KEYS[1]},
  {'GETRANGE', KEYS[1], '0', '0'}}) do
  local done = redis.pcall(unpack(command))
  if type(done) == 'table' and done.err then
    return done
  end
end
return 1`

// Probe has a script write a key of a tag. It tells whether the endpoint carries out what takes
// need: one that is full, or has become a replica, is still read.
func (e *Endpoint) Probe(ctx context.Context, prefix, tag string) error {
	key := prefix + "{" + tag + "}:probe"
	return e.client.Do(ctx, e.client.B().Eval().Script(probeText).Numkeys(1).Key(key).Build()).Error()
}

// run sends one script, again while a slot is on its way. Statuses below zero become errors.
func (e *Endpoint) run(ctx context.Context, p *program, keys, args []string) ([]rueidis.RedisMessage, error) {
	if keys[0] == "" {
		return nil, errNoKey
	}
	for pause := tornPause; ; pause *= 2 {
		reply, err := e.send(ctx, p, keys, args)
		if err == nil {
			err = failure(p, reply, keys)
		}
		if !isTorn(err) || !rest(ctx, pause) {
			return reply, err
		}
	}
}

// ask runs a script, and reads what it replies.
func ask[R any](ctx context.Context, e *Endpoint, p *program, keys, args []string,
	parse func(*program, []rueidis.RedisMessage) (R, error)) (R, error) {
	reply, err := e.run(ctx, p, keys, args)
	if err != nil {
		var none R
		return none, err
	}
	return parse(p, reply)
}

// While a slot of a cluster is on its way to another server, a call that declares several keys is
// answered with TRYAGAIN unless all of them are at the same one. Then it was not executed, and is
// sent again after a pause, twice as long each time, while the call has time.
const tornPause = time.Millisecond

func isTorn(err error) bool {
	var reply *rueidis.RedisError
	return errors.As(err, &reply) && reply.IsTryAgain()
}

// rest waits, and reports whether to try again: a call leaves most of its time to other shards.
func rest(ctx context.Context, pause time.Duration) bool {
	if by, ok := ctx.Deadline(); !ok && pause > time.Second || ok && time.Until(by) < 4*pause {
		return false
	}
	return clock.Sleep(ctx, pause)
}

// send makes one round trip, the first one with the full text; and another where the endpoint does
// not have the script any more: restart, SCRIPT FLUSH, failover. It never repeats what may have
// been executed, and rueidis does not either: EVALSHA and EVAL are not marked as retryable.
func (e *Endpoint) send(ctx context.Context, p *program, keys, args []string) ([]rueidis.RedisMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, &unsentError{err}
	}
	reply, err := p.read(e.client.Do(ctx, e.command(p, e.loaded[p.number].CompareAndSwap(false, true), keys, args)))
	if noScript(err) { // it was surely not executed
		return p.read(e.client.Do(ctx, e.command(p, true, keys, args)))
	}
	return reply, err
}

// command is a script by name, or its full text.
func (e *Endpoint) command(p *program, full bool, keys, args []string) rueidis.Completed {
	if full {
		return e.client.B().Eval().Script(p.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	}
	return e.client.B().Evalsha().Sha1(p.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// read returns the list that a script replied with; a text alone counts as a list of one.
func (p *program) read(result rueidis.RedisResult) ([]rueidis.RedisMessage, error) {
	if text, err := result.ToMessage(); err == nil && text.IsString() {
		return []rueidis.RedisMessage{text}, nil
	}
	reply, err := result.ToArray()
	if err != nil {
		if rueidis.IsParseErr(err) || rueidis.IsRedisNil(err) {
			return nil, malformed(p, err.Error())
		}
		return nil, p.raised(err)
	}
	return reply, nil
}

func noScript(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(reply.Error(), "NOSCRIPT")
}

// failure turns the statuses below zero into errors.
func failure(p *program, reply []rueidis.RedisMessage, keys []string) error {
	if len(reply) == 0 {
		return malformed(p, "empty")
	}
	status, err := reply[0].ToInt64()
	switch {
	case err != nil:
		return malformed(p, "the status is not an integer")
	case status >= 0:
		return nil
	case status == -2 && len(reply) == 2, status == -1 && len(reply) == 3:
		said, err := reply[len(reply)-1].ToString()
		if err != nil {
			return malformed(p, "what the server said is not a string")
		}
		if said = cleaned(said); status == -2 || !strings.HasPrefix(said, "WRONGTYPE") {
			return &RefusedError{Reason: said}
		}
	case status != -1 || len(reply) != 2:
		return malformed(p, "unknown status")
	}
	number, err := reply[1].ToInt64()
	if err != nil || number < 1 || number > int64(len(keys)) {
		return malformed(p, "wrong key number")
	}
	return &StateError{Key: keys[number-1],
		Detail: "found by " + p.name + "; if it is nobody's delete it, else use another KeyPrefix"}
}

// malformed tells what was wrong with a reply.
func malformed(p *program, detail string) error {
	return fmt.Errorf("%w to %s: %s", ErrMalformedReply, p.name, detail)
}
