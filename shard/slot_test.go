package shard_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/shardlimit/shardlimit/shard"
)

func ExampleTag() {
	key := "limit:{" + shard.Tag(12739) + "}:orders"
	fmt.Println(key, shard.Slot(key))
	// Output: limit:{74C}:orders 12739
}

func ExamplePositions() {
	fmt.Println(shard.Positions("orders", 1))
	fmt.Println(shard.Positions("orders", 4))
	// Output:
	// [10101]
	// [10101 14197 1909 6005]
}

func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"":                     0,
		"123456789":            12739, // the check value of CRC16/XMODEM, 0x31C3
		"foo":                  12182,
		"somekey":              11058,
		"{foo}":                12182,
		"x{foo}y{bar}":         12182,
		"{user1000}.following": 3443,
		"{user1000}.followers": 3443,
		"user1000":             3443,
		"foo{hash_tag}":        2515,
	} {
		if got := shard.Slot(key); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
}

// TestSlotTag checks which part of a key Redis hashes (examples of the cluster specification).
func TestSlotTag(t *testing.T) {
	for key, hashed := range map[string]string{
		"foo{{bar}}zap":  "{bar",
		"foo{bar}{zap}":  "bar",
		"a}b{c}":         "c",
		"x{\x00\xff}{q}": "\x00\xff",
		"foo{}{bar}":     "foo{}{bar}", // without a tag the whole key
		"foo{bar":        "foo{bar",
		"foo}bar":        "foo}bar",
		"{}":             "{}",
		"}{":             "}{",
	} {
		if got, want := shard.Slot(key), bitwise(hashed); got != want {
			t.Errorf("Slot(%q) = %d, want that of %q, %d", key, got, hashed, want)
		}
	}
}

// bitwise is the definition of CRC16/XMODEM of the whole of s, modulo Slots.
func bitwise(s string) int {
	crc := 0
	for i := range len(s) {
		for bit := 7; bit >= 0; bit-- {
			crc = crc<<1 | int(s[i]>>bit&1)
			if crc > 0xffff {
				crc ^= 0x11021
			}
		}
	}
	for range 16 {
		crc <<= 1
		if crc > 0xffff {
			crc ^= 0x11021
		}
	}
	return crc % shard.Slots
}

func FuzzSlot(f *testing.F) {
	for _, key := range []string{"", "{", "}", "{}", "a{b}c", "{{a}}", "}{a}"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		hashed := key
		if _, after, ok := strings.Cut(key, "{"); ok {
			if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
				hashed = tag
			}
		}
		if got, want := shard.Slot(key), bitwise(hashed); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	})
}

// TestTagGolden pins the tags for ever: keys in Redis carry them.
func TestTagGolden(t *testing.T) {
	digest := xxhash.New()
	seen := map[string]bool{}
	for slot := range shard.Slots {
		tag := shard.Tag(slot)
		if shard.Slot(tag) != slot || shard.Slot("prefix{"+tag+"}:h:{x}") != slot {
			t.Fatalf("Tag(%d) = %q has slot %d", slot, tag, shard.Slot(tag))
		}
		if len(tag) < 1 || len(tag) > 3 || seen[tag] {
			t.Fatalf("Tag(%d) = %q is too long or not unique", slot, tag)
		}
		seen[tag] = true
		fmt.Fprintf(digest, "%s,", tag)
	}
	if got := digest.Sum64(); got != 0xff63a065cec881e5 {
		t.Errorf("digest of all tags is %#x", got)
	}
	for slot, want := range map[int]string{0: "06S", 12739: "74C", 16383: "6ZJ"} {
		if got := shard.Tag(slot); got != want {
			t.Errorf("Tag(%d) = %q, want %q", slot, got, want)
		}
	}
}

func TestTagOutside(t *testing.T) {
	for _, slot := range []int{-1, shard.Slots} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Tag(%d) does not panic", slot)
				}
			}()
			shard.Tag(slot)
		}()
	}
}

func TestPositions(t *testing.T) {
	for _, name := range []string{"", "orders", "a\x00b", strings.Repeat("x", 1<<16)} {
		home := shard.Positions(name, 1)[0]
		for _, n := range []int{1, 2, 3, 5, 7, 16, 100, 1000, shard.Slots} {
			got := shard.Positions(name, n)
			if len(got) != n || got[0] != home {
				t.Fatalf("Positions(%.9q, %d) has %d, the first at %d, want %d", name, n, len(got), got[0], home)
			}
			for i, p := range got {
				if want := (home + i*shard.Slots/n) % shard.Slots; p != want {
					t.Fatalf("Positions(%.9q, %d)[%d] = %d, want %d", name, n, i, p, want)
				}
			}
			slices.Sort(got)
			if len(slices.Compact(got)) != n {
				t.Errorf("Positions(%.9q, %d) repeats a slot", name, n)
			}
		}
	}
	if n := len(shard.Positions("x", shard.Slots+1)); n != shard.Slots {
		t.Errorf("%d positions", n)
	}
	if n := len(shard.Positions("x", -1)); n != 0 {
		t.Errorf("%d positions of -1", n)
	}
}

// TestPositionsGolden pins where limits live.
func TestPositionsGolden(t *testing.T) {
	for name, want := range map[string]string{
		"orders": "[10101 15562 4639]",
		"":       "[10649 16110 5187]",
	} {
		if got := fmt.Sprint(shard.Positions(name, 3)); got != want {
			t.Errorf("Positions(%q, 3) = %s, want %s", name, got, want)
		}
	}
}

// TestPositionsMasters: masters with equal contiguous ranges get equally many shards.
func TestPositionsMasters(t *testing.T) {
	for k := range 200 {
		for masters := 1; masters <= 12; masters++ {
			for _, per := range []int{1, 2, 5} {
				count := make([]int, masters)
				for _, p := range shard.Positions(fmt.Sprint("limit", k), masters*per) {
					count[p*masters/shard.Slots]++
				}
				if low, high := slices.Min(count), slices.Max(count); low < per-1 || high > per+1 ||
					(masters&(masters-1) == 0 && low != high) {
					t.Fatalf("%d shards on %d masters: %v", masters*per, masters, count)
				}
			}
		}
	}
}

func TestRegionIsWhereTheShardOfTheKeyLies(t *testing.T) {
	nodes := []shard.Node{{Name: "a", Weight: 1}}
	keys := shard.Keys{Arrangement: shard.Arrangement{Slots: shard.KeySlots, Nodes: nodes}}
	seen := map[int]bool{}
	for i := range 1000 {
		at, _ := keys.Only(fmt.Sprintf("k5:users:%d", i))
		region := shard.Region("k5:users:", strconv.Itoa(i))
		if seen[region] = true; region != shard.RegionOf(at.Slot) {
			t.Fatalf("key %d is in slot %d, region %d", i, at.Slot, region)
		}
	}
	if len(seen) != shard.KeySlots {
		t.Errorf("%d regions", len(seen))
	}
}
