package shardlimit

import (
	"hash/maphash"

	lru "github.com/hashicorp/golang-lru/v2"
)

// keyCache is what a process remembers of the keys of a family: those used last. Keys are divided
// among parts, each with a lock of its own, so that calls for different keys do not meet.
type keyCache struct {
	seed  maphash.Seed
	parts [keyParts]*lru.Cache[string, *core]
}

const keyParts = 32

// newKeyCache returns a cache of so many keys, or a few more. forget is told of each that goes.
func newKeyCache(size int, forget func(*core)) (*keyCache, error) {
	k := &keyCache{seed: maphash.MakeSeed()}
	for i := range k.parts {
		part, err := lru.NewWithEvict((size+keyParts-1)/keyParts, func(_ string, c *core) { forget(c) })
		if err != nil {
			return nil, err
		}
		k.parts[i] = part
	}
	return k, nil
}

func (k *keyCache) part(key string) *lru.Cache[string, *core] {
	return k.parts[maphash.String(k.seed, key)%keyParts]
}

// get returns what is remembered of a key, nil if that is nothing.
func (k *keyCache) get(key string) *core {
	c, _ := k.part(key).Get(key)
	return c
}

// add remembers a key, and returns what was remembered of it before, if anything was.
func (k *keyCache) add(key string, c *core) *core {
	if old, ok, _ := k.part(key).PeekOrAdd(key, c); ok {
		return old // another caller was faster
	}
	return c
}

// all is what is remembered of all keys.
func (k *keyCache) all() (all []*core) {
	for _, part := range k.parts {
		all = append(all, part.Values()...)
	}
	return all
}
