package memory

import (
	"hash/maphash"
	"math"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Keys is what a process remembers of the keys of a family: those used last. Keys are divided among
// parts, each with a lock of its own, so that calls for different keys do not meet. It is safe for
// concurrent use.
type Keys[K comparable, V any] struct {
	seed  maphash.Seed
	parts [keyParts]*lru.Cache[K, V]
}

const keyParts = 32

// NewKeys returns what remembers so many keys, or some more: of many a tenth, of few several times
// as many.
func NewKeys[K comparable, V any](size int) (*Keys[K, V], error) {
	k := &Keys[K, V]{seed: maphash.MakeSeed()}
	// Keys are not divided evenly: hardly any part has four standard deviations more than the mean,
	// and a few.
	mean := float64(size) / keyParts
	most := int(math.Ceil(mean+4*math.Sqrt(mean))) + 4
	for i := range k.parts {
		part, err := lru.New[K, V](most)
		if err != nil {
			return nil, err
		}
		k.parts[i] = part
	}
	return k, nil
}

func (k *Keys[K, V]) part(key K) *lru.Cache[K, V] {
	return k.parts[maphash.Comparable(k.seed, key)%keyParts]
}

// Get returns what is remembered of a key, the zero value if that is nothing.
func (k *Keys[K, V]) Get(key K) V {
	v, _ := k.part(key).Get(key)
	return v
}

// Add remembers a key, and returns what is remembered of it then: another caller may have been
// faster.
func (k *Keys[K, V]) Add(key K, v V) V {
	if old, ok, _ := k.part(key).PeekOrAdd(key, v); ok {
		return old
	}
	return v
}

// All is what is remembered of all keys.
func (k *Keys[K, V]) All() (all []V) {
	for _, part := range k.parts {
		all = append(all, part.Values()...)
	}
	return all
}
