package memory

import (
	"fmt"
	"testing"
)

// Of no more keys than it is told to remember none is forgotten, and of many more about as many
// stay.
func TestKeysAreRememberedAsManyAsTold(t *testing.T) {
	for _, size := range []int{1, 32, 100, 1000, 65_536} {
		k, err := NewKeys[string, int](size)
		if err != nil {
			t.Fatal(err)
		}
		for i := range size {
			k.Add(fmt.Sprint("user ", i), i)
		}
		if gone := size - len(k.All()); gone > size/100 { // the seed of the parts is drawn
			t.Errorf("%d of %d keys are forgotten", gone, size)
		}
		for i := range 4*size + 1000 {
			k.Add(fmt.Sprint("another ", i), i)
		}
		if kept := len(k.All()); kept < size || kept > 2*size+300 {
			t.Errorf("%d keys are remembered, of %d that may be", kept, size)
		}
	}
}
