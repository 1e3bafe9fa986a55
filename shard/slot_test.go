package shard_test

import (
	"fmt"
	"math"
	"slices"
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

// bitwise is the definition of CRC16/XMODEM of the whole of s, modulo Slots.
func bitwise(s string) int {
	crc := 0
	for _, c := range append([]byte(s), 0, 0) {
		for bit := 7; bit >= 0; bit-- {
			crc = crc<<1 | int(c>>bit&1)
			if crc > 0xffff {
				crc ^= 0x11021
			}
		}
	}
	return crc % shard.Slots
}

func FuzzSlot(f *testing.F) {
	if got := shard.Slot("123456789"); got != 12739 { // the check value of CRC16/XMODEM is 0x31C3
		f.Errorf("the check value has slot %d", got)
	}
	for _, key := range []string{"", "{", "}", "{}", "a{b}c", "{{a}}", "}{a}", "foo{{bar}}zap", "foo{bar}{zap}",
		"x{\x00\xff}{q}", "foo{}{bar}", "foo{bar", "foo}bar"} { // some from the cluster specification
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

func ExampleSplit() {
	fmt.Println(shard.Split(11, 4))
	// Output: [3 3 3 2]
}

func ExampleAuto() {
	fmt.Println(shard.Auto(10_000, 3, 16), shard.Auto(1000, 3, 16), shard.Auto(1000, 3, 100))
	// Output: 3 2 1
}

func ExampleFit() {
	fmt.Println(shard.Fit(5, 8), shard.Fit(500, 8))
	// Output: 5 8
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		permits    int64
		want, fits int
	}{
		{1, 8, 1}, {2, 8, 2}, {7, 8, 7}, {8, 8, 8}, {9999991, 8, 8},
		{100, 0, 1}, {100, -5, 1}, {0, 8, 1}, {-1, 8, 1}, {math.MinInt64, 8, 1},
		{math.MaxInt64, math.MaxInt, shard.MaxLive},
	} {
		if got := shard.Fit(c.permits, c.want); got != c.fits {
			t.Errorf("Fit(%d, %d) = %d, want %d", c.permits, c.want, got, c.fits)
		}
	}
}

func TestAuto(t *testing.T) {
	for _, c := range []struct {
		permits      int64
		nodes        int
		participants int64
		want         int
	}{
		{1, 3, 1, 1}, {49, 3, 1, 1}, {50, 3, 1, 2}, {74, 3, 1, 2}, {75, 3, 1, 3}, {1e12, 3, 1, 3}, {1e12, 1, 1, 1},
		{1000, 0, 1, 1}, {100, 16, 1, 4}, {0, 4, 1, 1},
		{799, 3, 16, 1}, {800, 3, 16, 2}, {1199, 3, 16, 2}, {1200, 3, 16, 3}, {1e12, 3, 1000, 3},
		{1e12, 3, math.MaxInt64, 1},
		{75, 3, 0, 3}, {75, 3, -1, 3}, {math.MaxInt64, 3, 1, 3},
	} {
		if got := shard.Auto(c.permits, c.nodes, c.participants); got != c.want {
			t.Errorf("Auto(%d, %d, %d) = %d, want %d", c.permits, c.nodes, c.participants, got, c.want)
		}
	}
}

func FuzzSplit(f *testing.F) {
	for _, permits := range []int64{0, 1, 2, 7, 11, 9999991, 1e12, math.MaxInt64, -3} {
		for _, n := range []int{0, 1, 2, 3, 7, 16, 1000} {
			f.Add(permits, n)
		}
	}
	f.Fuzz(func(t *testing.T, permits int64, n int) {
		n %= shard.Slots + 1
		shares := shard.Split(permits, n)
		if len(shares) != max(n, 0) {
			t.Fatalf("%d shares, want %d", len(shares), n)
		}
		if n <= 0 {
			return
		}
		permits = max(permits, 0)
		var sum, most int64
		least := int64(math.MaxInt64)
		for i, s := range shares {
			sum, most, least = sum+s, max(most, s), min(least, s)
			// Spread: the extra ones of every beginning are about its part of all of them.
			extra, part := sum-int64(i+1)*(permits/int64(n)), float64(i+1)*float64(permits%int64(n))/float64(n)
			if math.Abs(float64(extra)-part) > 1+math.Log2(float64(n)) {
				t.Fatalf("the first %d of %d shares of %d have %d extra, their part is %.1f", i+1, n, permits, extra,
					part)
			}
		}
		if sum != permits || most-least > 1 || (permits >= int64(n) && least < 1) {
			t.Fatalf("Split(%d, %d): sum %d, from %d to %d", permits, n, sum, least, most)
		}
	})
}
