package shardlimit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/shard"
)

// A server that two processes know by two names holds two sets of shards, and each process takes
// the whole limit from its own. So each server remembers the one name under which it is used with a
// key prefix, and whoever comes with another name does not use it.
const (
	// A name is kept so long after the last process that uses it was heard of.
	nameKeep = 10 * time.Minute
	// A name is looked at so often, and soon after a node was connected anew.
	nameEvery   = 3 * time.Minute
	nameTimeout = 500 * time.Millisecond
	redialPause = time.Second // at least, from a new connection until names are looked at
)

// nameKey is where a server keeps its name, in a cluster one of its masters.
func (c *Client) nameKey() string { return c.cfg.KeyPrefix + "{node}:i" }

// newNode makes a node that is asked for its name when it is connected.
func (c *Client) newNode(n Node) *node {
	made := newNode(n, c.now, c.logNode)
	made.vouch = func(client rueidis.Client) error {
		c.watching.Do(func() { c.spawn(c.watchNames) })
		return c.claim(c.ctx, made.name, client)
	}
	if dial := made.option.DialCtxFn; dial != nil {
		made.option.DialCtxFn = redialled(dial, func() {
			if made.client.Load() != nil {
				select {
				case c.reconnected <- struct{}{}:
				default: // they are about to be looked at
				}
			}
		})
	}
	return made
}

// watchNames keeps the names of the connected nodes, and takes those nodes out of use whose server
// has another name by now.
func (c *Client) watchNames(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.reconnected:
			// To look connects anew where that just failed, and so leads here again.
			if !sleep(ctx, redialPause+mathrand.N(redialPause/4)) {
				return
			}
		case <-time.After(nameEvery + mathrand.N(nameEvery/4)):
		}
		for _, n := range c.roster.Load().byName {
			on := n.client.Load()
			if on == nil || !n.ready(shard.Slot(c.nameKey())) { // nor does any call use it
				continue
			}
			if err := c.claim(ctx, n.name, on.client); err != nil && n.refuse(on, err) {
				c.closeLater(func() { n.closeClient(on.client) })
			}
		}
	}
}

// claim tells a server that it is used under a name, or returns an error that wraps ErrNodeIdentity
// if it is used under another one. A server that cannot be asked is used all the same: it
// may be a replica, be full, or not permit the key, and what it holds is safe where it is.
func (c *Client) claim(ctx context.Context, name string, client rueidis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	found, err := c.nameOn(ctx, name, client)
	switch {
	case err != nil:
		c.cfg.Logger.Debug("the name of a node could not be checked", "node", name, "err", err)
	case found != name:
		return fmt.Errorf("%w: it is in use as %q, not as %q; set Node.Name to one name in every process (key %q keeps it)",
			ErrNodeIdentity, found, name, c.nameKey())
	}
	return nil
}

// nameOn returns the name that a server has, after giving it ours if it had none.
func (c *Client) nameOn(ctx context.Context, name string, client rueidis.Client) (string, error) {
	key, mine := c.nameKey(), newClaim()+" "+name
	replies := client.DoMulti(ctx,
		client.B().Set().Key(key).Value(mine).Nx().Px(nameKeep).Build(),
		client.B().Get().Key(key).Build())
	held, err := replies[1].ToString()
	if err != nil {
		if refused := replies[0].Error(); refused != nil && !rueidis.IsRedisNil(refused) {
			err = refused
		}
		return "", err
	}
	_, found, ok := strings.Cut(held, " ")
	if !ok {
		return "", fmt.Errorf("key %q holds something else", key)
	}
	if found == name && held != mine { // nobody waits for that it lives on
		c.spawn(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, nameTimeout)
			defer cancel()
			client.Do(ctx, client.B().Pexpire().Key(key).Milliseconds(nameKeep.Milliseconds()).Build())
		})
	}
	return found, nil
}

// newClaim tells one claim of a name from another, so that a process knows its own.
func newClaim() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand aborts the program instead
	return hex.EncodeToString(random[:])
}

// closeLater ends a connection when the calls that were sent on it have ended.
func (c *Client) closeLater(end func()) {
	if !c.spawn(func(ctx context.Context) {
		sleep(ctx, 2*c.cfg.CallTimeout+time.Second)
		end()
	}) {
		end()
	}
}

// sameServer reports whether two nodes of a Config are sure to be one server, by what they say.
func sameServer(a, b Node) bool {
	if a.Client != nil || b.Client != nil {
		return a.Client == b.Client
	}
	x, y := a.Redis, b.Redis
	if dialsItself(x) || dialsItself(y) || x.SelectDB != y.SelectDB || x.Sentinel.MasterSet != y.Sentinel.MasterSet {
		return false
	}
	return slices.ContainsFunc(x.InitAddress, func(address string) bool { return slices.Contains(y.InitAddress, address) })
}
