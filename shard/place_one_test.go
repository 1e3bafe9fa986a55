package shard

import (
	"fmt"
	"testing"
)

// A single shard is placed as Place would place it.
func TestPlaceOneIsPlaceOfOne(t *testing.T) {
	for i := range 2_000 {
		var nodes []Node
		for j := range 1 + i%7 {
			nodes = append(nodes, Node{Name: fmt.Sprint("n", i%5, j), Weight: float64(1 + i*j%3)})
		}
		name := fmt.Sprint("key ", i)
		if got, want := placeOne(name, nodes), Place(name, 1, nodes)[0]; got != want {
			t.Fatalf("%s of %v: %d, want %d", name, nodes, got, want)
		}
	}
}
