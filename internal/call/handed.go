package call

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Handed is what a decision that was handed over tells of one limit.
type Handed struct {
	handedHead
	parts []handedPart
}

type handedHead struct {
	Limiter       uint64 // hash of its id
	Participant   uint64 // its ID
	Nonce, Ticket uint64 // of the decision
	Granted       int64
	Parts         uint16
}

// handedPart is what one shard granted.
type handedPart struct {
	Site  uint64 // hash of where the shard is
	At, N int64
}

const (
	handedVersion = 2
	handedBegin   = 5        // version and checksum
	mostHanded    = 64 << 10 // bytes
)

// MarshalText returns what Settle needs of the decision, see shardlimit.Decision.
func (d *Decision) MarshalText() ([]byte, error) {
	all := []Decision{*d}
	if d.Joint != nil {
		all = *d.Joint
	}
	data := make([]byte, handedBegin, 128)
	data[0] = handedVersion
	data = binary.BigEndian.AppendUint64(data, uint64(max(d.Granted, 0)))
	for i := range all {
		h := all[i].handOver()
		data, _ = binary.Append(data, binary.BigEndian, &h.handedHead) // what has fixed widths never fails
		data, _ = binary.Append(data, binary.BigEndian, h.parts)
	}
	binary.BigEndian.PutUint32(data[1:], uint32(xxhash.Sum64(data[handedBegin:])))
	return base64.RawURLEncoding.AppendEncode(nil, data), nil
}

// handOver returns what Settle needs of a decision on one limit.
func (d *Decision) handOver() Handed {
	if h := d.rarely().handed; h != nil {
		return *h
	}
	h := Handed{handedHead: handedHead{Granted: max(d.Granted, 0)}}
	if d.Target == nil {
		return h
	}
	h.Limiter = xxhash.Sum64String(d.id())
	parts := d.parts()
	if d.rarely().engine != nil || len(parts) == 0 {
		return h
	}
	h.Nonce, h.Ticket = d.origin()
	h.Participant, _ = strconv.ParseUint(parts[0].Account.ID(), 16, 64)
	h.Parts = uint16(len(parts))
	for _, p := range parts {
		h.parts = append(h.parts, handedPart{siteHash(p.Account.Shard.Site), int64(p.At), p.N})
	}
	return h
}

// Settles reports whether there is something to settle the decision with for so many permits: for
// what the outage policy or a mode granted there is nothing.
func (d *Decision) Settles(used int64) bool {
	switch h := d.rarely().handed; {
	case used == d.Granted:
		return false
	case h != nil:
		return len(h.parts) > 0
	case d.rarely().engine != nil:
		return true
	}
	return len(d.parts()) > 0
}

// siteHash identifies where a shard is.
func siteHash(s shard.Site) uint64 {
	return xxhash.Sum64String(fmt.Sprintf("%d %q %q %q", s.Slot, s.Node, s.Algorithm, s.Incarnation))
}

// UnmarshalText reads such a text. Any other one is ErrInvalidDecision, and leaves d as it is.
func (d *Decision) UnmarshalText(text []byte) error {
	invalid := func(why string) error { return fmt.Errorf("%w: %s", limit.ErrInvalidDecision, why) }
	if len(text) > mostHanded || bytes.ContainsAny(text, "\r\n") { // which the decoder skips
		return invalid("too long, or of several lines")
	}
	data, err := base64.RawURLEncoding.Strict().AppendDecode(nil, text)
	switch {
	case err != nil || len(data) <= handedBegin:
		return invalid("too short, or not base64url")
	case data[0] != handedVersion:
		return invalid("another version")
	case binary.BigEndian.Uint32(data[1:]) != uint32(xxhash.Sum64(data[handedBegin:])):
		return invalid("the checksum is another")
	}
	rest := bytes.NewReader(data[handedBegin:])
	var granted int64
	bad := binary.Read(rest, binary.BigEndian, &granted) != nil || granted < 0 || granted > limit.MaxPermits
	var all []Decision
	for rest.Len() > 0 && !bad {
		h := &Handed{}
		bad = !h.read(rest)
		all = append(all, Decision{Answer{Granted: h.Granted}, Origin{special: &special{handed: h}}})
	}
	if bad {
		return invalid("cut off or out of range")
	}
	*d = Decision{Answer: Answer{Allowed: granted > 0, Granted: granted}}
	if len(all) == 1 {
		d.special = all[0].special
	} else {
		d.Joint = &all
	}
	return nil
}

// read takes the numbers from the front of data that may be anything, and reports whether they can
// be such.
func (h *Handed) read(data *bytes.Reader) bool {
	if binary.Read(data, binary.BigEndian, &h.handedHead) != nil || h.Granted < 0 || h.Granted > limit.MaxPermits ||
		data.Len() < int(h.Parts) {
		return false
	}
	h.parts = make([]handedPart, h.Parts)
	if binary.Read(data, binary.BigEndian, h.parts) != nil {
		return false
	}
	left := h.Granted
	for _, p := range h.parts {
		if p.N < 1 || p.N > left || p.At < 0 || p.At > script.MaxEpoch {
			return false
		}
		left -= p.N
	}
	return true
}
