package shard

import (
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// Slots is the number of hash slots of a Redis Cluster.
const Slots = 16384

// Slot returns the hash slot of key, 0..Slots-1, as Redis Cluster computes it:
// CRC16 (XMODEM) modulo Slots of the key, or of the text between the first '{'
// and the first '}' after it if there is any text between them. Only the first
// '{' counts: the whole of "a{}{b}" is hashed.
func Slot(key string) int {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if n := strings.IndexByte(key[open+1:], '}'); n > 0 {
			key = key[open+1 : open+1+n]
		}
	}
	return int(crc16(key)) % Slots
}

// Tag returns a short string (one to three letters or digits) whose slot is
// slot: put it in braces to place a key. The same slot has the same tag in every
// release. It panics if slot is outside 0..Slots-1. The first call computes
// the table, which takes a few milliseconds.
func Tag(slot int) string { return tags()[slot] }

const tagAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// tags holds for every slot the first string that hashes to it, shortest first
// and in ASCII order among equally long ones.
var tags = sync.OnceValue(func() *[Slots]string {
	var table [Slots]string
	missing := Slots
	for length := 1; missing > 0; length++ {
		missing -= fillTags(&table, make([]byte, 0, length), 0)
	}
	return &table
})

// fillTags tries every string that completes prefix to its capacity, whose CRC
// so far is crc, and returns how many empty places of table it filled.
func fillTags(table *[Slots]string, prefix []byte, crc uint16) int {
	if len(prefix) == cap(prefix) {
		if slot := crc % Slots; table[slot] == "" {
			table[slot] = string(prefix)
			return 1
		}
		return 0
	}
	filled := 0
	for i := range len(tagAlphabet) {
		c := tagAlphabet[i]
		filled += fillTags(table, append(prefix, c), crcStep(crc, c))
	}
	return filled
}

// Positions returns n different slots evenly spaced over the Slots, so that in a
// cluster whose masters own contiguous ranges they fall on different masters
// without anybody reading the topology. Position i is floor(i*Slots/n) after
// the first, which depends on name alone and is the limit's home slot: it is
// the same for every n. Doubling n keeps the old positions. n is 0 to Slots.
func Positions(name string, n int) []int {
	positions := make([]int, n)
	for i := range positions {
		positions[i] = (home(name) + offset(i, n)) % Slots
	}
	return positions
}

// home returns the first of the positions of a name.
func home(name string) int { return int(xxhash.Sum64String(name) % Slots) }

// homeOf is home of the name prefix+end.
func homeOf(prefix, end string) int {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(prefix) // it never fails
	_, _ = d.WriteString(end)
	return int(d.Sum64() % Slots)
}

// offset returns how far position i of n is from the first.
func offset(i, n int) int { return i * Slots / n }

// crc16 is CRC16/XMODEM: polynomial 0x1021, initial value 0, not reflected.
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc = crcStep(crc, s[i])
	}
	return crc
}

func crcStep(crc uint16, b byte) uint16 {
	crc ^= uint16(b) << 8
	for range 8 {
		high := crc&0x8000 != 0
		crc <<= 1
		if high {
			crc ^= 0x1021
		}
	}
	return crc
}
