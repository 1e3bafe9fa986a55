package script

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

const (
	// MaxParticipant is the longest name of a participant, in bytes.
	MaxParticipant = 512
	// MaxParticipants is how many participants a record counts at most. A newcomer beyond is not
	// counted until one of them is forgotten.
	MaxParticipants = 10_000
	// MaxBlob is the longest blob a record holds, in bytes.
	MaxBlob = 1 << 20
	// ExpectOlder makes WriteRecord write if what is stored is older: absent, of a lower epoch, or
	// of the same epoch and not settled while the new one is.
	ExpectOlder = -1
)

// Record is what a limit's register holds: its layout, which this package does not read, and the
// epoch that orders layouts.
type Record struct {
	Exists       bool
	Epoch        int64 // 1 to MaxEpoch
	Settled      bool
	Age          time.Duration // since the record was first created anywhere, by the clock of the node that answered
	Blob         []byte
	Participants int64 // how many were alive, up to MaxParticipants; only ReadRecord counts them
	Now          int64 // the node's clock in microseconds
}

// ReadRecordRequest says who reads. With no Participant the read is pure and writes nothing;
// ParticipantTTL then only says whom to count.
type ReadRecordRequest struct {
	Participant    string        // at most MaxParticipant bytes
	ParticipantTTL time.Duration // how long one that was not heard of still counts, from 1ms
	Keep           time.Duration // how long the record lives after this, from 1ms; not needed for a pure read
}

// ReadRecord reads a limit's record and, unless the read is pure, keeps the record alive and
// registers the participant, record or not.
func (e *Endpoint) ReadRecord(ctx context.Context, ref RecordRef, r ReadRecordRequest) (Record, error) {
	if err := r.check(); err != nil {
		return Record{}, err
	}
	args := [3]string{r.Participant, number(int64(r.ParticipantTTL / time.Microsecond)), number(milliseconds(r.Keep))}
	reply, err := e.run(ctx, readRecordProgram, ref.keys(), args[:])
	if err != nil {
		return Record{}, err
	}
	return parseReadRecord(reply)
}

func (r ReadRecordRequest) check() error {
	switch {
	case len(r.Participant) > MaxParticipant:
		return invalid("a participant of %d bytes", len(r.Participant))
	case r.Participant != "" && (r.ParticipantTTL < time.Millisecond || r.Keep < time.Millisecond):
		return invalid("participants live %v, the record %v", r.ParticipantTTL, r.Keep)
	case r.ParticipantTTL < 0 || r.ParticipantTTL > 100*MaxWindow || r.Keep < 0 || r.Keep > 1000*MaxWindow:
		return invalid("participants live %v, the record %v", r.ParticipantTTL, r.Keep)
	}
	return nil
}

func parseReadRecord(reply []rueidis.RedisMessage) (Record, error) {
	p := &programs[readRecordProgram]
	var n [6]int64
	if len(reply) != len(n)+1 {
		return Record{}, malformed(p, "wrong length")
	}
	if err := integers(p, reply, n[:]); err != nil {
		return Record{}, err
	}
	blob, err := reply[6].AsBytes()
	if err != nil || !natural(n[:]) || n[0] > 1 || n[2] > 1 || (n[0] == 1) != (n[1] > 0) {
		return Record{}, malformed(p, "out of range")
	}
	record := Record{Exists: n[0] == 1, Epoch: n[1], Settled: n[2] == 1, Now: n[3], Age: duration(n[4]),
		Participants: n[5]}
	if record.Exists {
		record.Blob = blob
	}
	return record, nil
}

// WriteRecordRequest is a new record and what must be stored for it to be written.
type WriteRecordRequest struct {
	Expect int64 // the epoch stored now; 0: none; ExpectOlder
	// from Expect to MaxEpoch, at least 1: the same epoch may be written again, settled or not,
	// until it is settled
	Epoch   int64
	Settled bool
	Blob    []byte        // not kept after the call, at most MaxBlob bytes
	Keep    time.Duration // how long the record lives after this, from 1ms
	BornAge time.Duration // the age of the record that this is a copy of; 0: it is new. What is stored keeps its birth.
}

// WriteRecord writes the record if what is stored is as expected. It returns the record as it is
// stored after the call, and whether that is the one given; if not, written is false, which is no
// error.
func (e *Endpoint) WriteRecord(ctx context.Context, ref RecordRef,
	r WriteRecordRequest) (record Record, written bool, err error) {
	if err := r.check(); err != nil {
		return Record{}, false, err
	}
	settled := "0"
	if r.Settled {
		settled = "1"
	}
	args := [6]string{
		number(r.Expect), number(r.Epoch), settled, number(milliseconds(r.Keep)),
		number(int64(r.BornAge / time.Microsecond)), string(r.Blob),
	}
	reply, err := e.run(ctx, writeRecordProgram, [3]string{ref.record}, args[:])
	if err != nil {
		return Record{}, false, err
	}
	return parseWriteRecord(reply, r.Blob)
}

func (r WriteRecordRequest) check() error {
	switch {
	case r.Expect < ExpectOlder || r.Epoch < max(r.Expect, 1) || r.Epoch > MaxEpoch:
		return invalid("epoch %d over %d", r.Epoch, r.Expect)
	case len(r.Blob) > MaxBlob:
		return invalid("a record of %d bytes", len(r.Blob))
	case r.Keep < time.Millisecond || r.Keep > 1000*MaxWindow || r.BornAge < 0:
		return invalid("a record of age %v that lives %v", r.BornAge, r.Keep)
	}
	return nil
}

func parseWriteRecord(reply []rueidis.RedisMessage, mine []byte) (Record, bool, error) {
	p := &programs[writeRecordProgram]
	var n [6]int64
	if len(reply) != len(n)+1 {
		return Record{}, false, malformed(p, "wrong length")
	}
	if err := integers(p, reply, n[:]); err != nil {
		return Record{}, false, err
	}
	blob, err := reply[6].AsBytes()
	if err != nil || !natural(n[:]) || n[0] != 1 || n[1] > 1 || n[3] > 1 || n[1] == 1 && n[2] == 0 {
		return Record{}, false, malformed(p, "out of range")
	}
	record := Record{Exists: n[2] > 0, Epoch: n[2], Settled: n[3] == 1, Now: n[4], Age: duration(n[5])}
	if n[1] == 1 {
		record.Blob = append([]byte(nil), mine...)
	} else if record.Exists {
		record.Blob = blob
	}
	return record, n[1] == 1, nil
}

// DropRecord deletes a limit's record and its participants, if both are ours.
func (e *Endpoint) DropRecord(ctx context.Context, ref RecordRef) error {
	reply, err := e.run(ctx, dropRecordProgram, ref.keys(), nil)
	if err != nil {
		return err
	}
	return parseDrop(&programs[dropRecordProgram], reply)
}
