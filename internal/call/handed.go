package call

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Handed is what a decision that was handed over tells of one limit.
type Handed struct {
	limiter       uint64 // hash of its id
	participant   string // its ID
	nonce, ticket uint64 // of the decision
	Granted       int64
	parts         []handedPart
}

// handedPart is what one shard granted.
type handedPart struct {
	site  uint64 // hash of where the shard is
	at, n int64
}

const (
	handedVersion = 1
	handedHead    = 5        // version and checksum
	mostHanded    = 64 << 10 // bytes
)

// MarshalText returns what Settle needs of the decision, see shardlimit.Decision.
func (d *Decision) MarshalText() ([]byte, error) {
	all := []Decision{*d}
	if d.Joint != nil {
		all = *d.Joint
	}
	data := make([]byte, handedHead, 128)
	data[0] = handedVersion
	data = binary.AppendUvarint(data, uint64(max(d.Granted, 0)))
	for i := range all {
		h := all[i].handOver()
		data = h.append(data)
	}
	binary.BigEndian.PutUint32(data[1:], uint32(xxhash.Sum64(data[handedHead:])))
	return base64.RawURLEncoding.AppendEncode(nil, data), nil
}

// handOver returns what Settle needs of a decision on one limit.
func (d *Decision) handOver() Handed {
	if h := d.rarely().handed; h != nil {
		return *h
	}
	h := Handed{Granted: max(d.Granted, 0)}
	if d.Target == nil {
		return h
	}
	h.limiter = xxhash.Sum64String(d.Target.ID)
	parts := d.parts()
	if d.rarely().engine != nil || len(parts) == 0 {
		return h
	}
	h.nonce, h.ticket = d.origin()
	h.participant = parts[0].Seat.ID()
	for _, p := range parts {
		h.parts = append(h.parts, handedPart{siteHash(limit.SiteOf(p.Seat.Lane)), int64(p.At), p.N})
	}
	return h
}

// siteHash identifies where a shard is.
func siteHash(s shard.Site) uint64 {
	return xxhash.Sum64String(fmt.Sprintf("%d %q %q %q", s.Slot, s.Node, s.Algorithm, s.Life))
}

func (h *Handed) append(data []byte) []byte {
	data = binary.BigEndian.AppendUint64(data, h.limiter)
	var id [8]byte
	_, _ = hex.Decode(id[:], []byte(h.participant)) // nothing where there are no parts
	data = append(data, id[:]...)
	data = binary.BigEndian.AppendUint64(data, h.nonce)
	for _, n := range []uint64{h.ticket, uint64(h.Granted), uint64(len(h.parts))} {
		data = binary.AppendUvarint(data, n)
	}
	for _, p := range h.parts {
		data = binary.BigEndian.AppendUint64(data, p.site)
		data = binary.AppendUvarint(binary.AppendUvarint(data, uint64(p.at)), uint64(p.n))
	}
	return data
}

// UnmarshalText reads such a text. Any other one is ErrInvalidDecision, and leaves d as it is.
func (d *Decision) UnmarshalText(text []byte) error {
	invalid := func(why string) error { return fmt.Errorf("%w: %s", limit.ErrInvalidDecision, why) }
	if len(text) > mostHanded {
		return invalid("too long")
	}
	data, err := base64.RawURLEncoding.Strict().AppendDecode(nil, text)
	switch {
	case len(text) == 0:
		return invalid("it is empty")
	case err != nil || bytes.ContainsAny(text, "\r\n"): // which the decoder skips
		return invalid("not base64url")
	case len(data) <= handedHead || data[0] != handedVersion:
		return invalid("another version")
	case binary.BigEndian.Uint32(data[1:]) != uint32(xxhash.Sum64(data[handedHead:])):
		return invalid("the checksum is another")
	}
	r := reader{rest: data[handedHead:]}
	granted := r.number(limit.MaxPermits)
	var all []Decision
	for len(r.rest) > 0 && !r.bad {
		h := r.handed()
		all = append(all, Decision{Answer{Granted: h.Granted}, Origin{special: &special{handed: &h}}})
	}
	if r.bad {
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

// reader reads numbers off a text that may be anything.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) fixed() (n uint64) {
	if r.bad = r.bad || len(r.rest) < 8; r.bad {
		return 0
	}
	n, r.rest = binary.BigEndian.Uint64(r.rest), r.rest[8:]
	return n
}

func (r *reader) varint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if r.bad = r.bad || size <= 0 || size > 1 && r.rest[size-1] == 0; r.bad { // cut off, or longer than need be
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// number reads one that is at most that.
func (r *reader) number(most int64) int64 {
	n := r.varint()
	if r.bad = r.bad || n > uint64(most); r.bad {
		return 0
	}
	return int64(n)
}

func (r *reader) handed() (h Handed) {
	h.limiter = r.fixed()
	h.participant = fmt.Sprintf("%016x", r.fixed())
	h.nonce, h.ticket, h.Granted = r.fixed(), r.varint(), r.number(limit.MaxPermits)
	left := h.Granted
	for range r.number(int64(len(r.rest))) {
		p := handedPart{r.fixed(), r.number(script.MaxEpoch), r.number(left)}
		if r.bad = r.bad || p.n == 0; r.bad {
			return h
		}
		left -= p.n
		h.parts = append(h.parts, p)
	}
	return h
}
