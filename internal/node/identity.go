package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
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

// ErrIdentity is that a server is in use under another node name, so it is not used under this one.
var ErrIdentity = errors.New("shardlimit: the server of the node has another name")

// IdentityError tells under which name the server is in use; it is ErrIdentity.
type IdentityError struct {
	Found, Name string // the name that it has, and that under which it was to be used
	key         string // that keeps it
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("%v: it is in use as %q, not as %q; set Node.Name to one name in every process "+
		"(key %q keeps it)", ErrIdentity, e.Found, e.Name, e.key)
}

// Unwrap returns ErrIdentity.
func (e *IdentityError) Unwrap() error { return ErrIdentity }

// nameKey is where a server keeps its name, in a cluster one of its masters.
func (f *Fleet) nameKey() string { return f.Prefix + "{node}:i" }

// newNode makes a node that is asked for its name when it is connected.
func (f *Fleet) newNode(s Spec) *Node {
	made := New(s, &f.Settings)
	made.best = &f.fastest
	made.vouch = func(client rueidis.Client) error {
		f.watching.Do(func() { f.Spawn(f.watchNames) })
		return f.claim(f.Ctx, made.Name, client)
	}
	if dial := made.option.DialCtxFn; dial != nil {
		made.option.DialCtxFn = redialled(dial, func() {
			if made.client.Load() != nil {
				select {
				case f.reconnected <- struct{}{}:
				default: // they are about to be looked at
				}
			}
		})
	}
	return made
}

// watchNames keeps the names of the connected nodes, and takes those nodes out of use whose server
// has another name by now.
func (f *Fleet) watchNames(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.reconnected:
			// To look connects anew where that just failed, and so leads here again.
			if !clock.Sleep(ctx, redialPause+chance.N(redialPause/4)) {
				return
			}
		case <-time.After(nameEvery + chance.N(nameEvery/4)):
		}
		named := f.roster.Load().byName
		for _, name := range slices.Sorted(maps.Keys(named)) {
			n := named[name]
			on := n.client.Load()
			if on == nil || !n.Ready(shard.Slot(f.nameKey())) { // nor does any call use it
				continue
			}
			if err := f.claim(ctx, n.Name, on.client); err != nil && n.refuse(on, err) {
				f.closeLater(func() { n.closeClient(on.client) })
			}
		}
	}
}

// claim tells a server that it is used under a name, or returns an error that wraps ErrIdentity
// if it is used under another one. A server that cannot be asked is used all the same: it
// may be a replica, be full, or not permit the key, and what it holds is safe where it is.
func (f *Fleet) claim(ctx context.Context, name string, client rueidis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	found, err := f.nameOn(ctx, name, client)
	switch {
	case err != nil:
		f.Log.Debug("the name of a node could not be checked", "node", name, "err", err)
	case found != name:
		return &IdentityError{Found: found, Name: name, key: f.nameKey()}
	}
	return nil
}

// nameOn returns the name that a server has, after giving it ours if it had none.
func (f *Fleet) nameOn(ctx context.Context, name string, client rueidis.Client) (string, error) {
	key := f.nameKey()
	mine := fmt.Sprintf("%016x %s", chance.Uint64(), name) // so that a process knows its own claim
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
		f.Spawn(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, nameTimeout)
			defer cancel()
			client.Do(ctx, client.B().Pexpire().Key(key).Milliseconds(nameKeep.Milliseconds()).Build())
		})
	}
	return found, nil
}
