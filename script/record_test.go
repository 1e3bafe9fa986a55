package script

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// register is the model of a record: compare-and-set on the epoch, settled for good.
type register struct {
	epoch   int64
	settled bool
	blob    []byte
}

func (m *register) write(r WriteRecordRequest) (written bool) {
	newer := r.Epoch > m.epoch || r.Epoch == m.epoch && r.Settled && !m.settled
	same := r.Epoch == m.epoch && r.Settled == m.settled
	if r.Expect == ExpectOlder && newer || r.Expect == m.epoch && (newer || same) {
		m.epoch, m.settled, m.blob = r.Epoch, r.Settled, r.Blob
		return true
	}
	return false
}

func testRegister(t *testing.T, client rueidis.Client) {
	ctx, endpoint := context.Background(), NewEndpoint(client)
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		ref, model := RecordKeys("", "t", strconv.Itoa(run)), &register{}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			expect := rapid.Int64Range(-1, 3).Draw(t, "expect")
			r := WriteRecordRequest{
				Expect: expect, Epoch: rapid.Int64Range(max(expect, 1), 4).Draw(t, "epoch"),
				Settled: rapid.Bool().Draw(t, "settled"),
				Blob:    rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "blob"), Keep: time.Hour,
			}
			want := model.write(r)
			got, written, err := endpoint.WriteRecord(ctx, ref, r)
			if err != nil || written != want || !model.equal(got) {
				t.Fatalf("%+v: %+v, written %v (want %v, %+v): %v", r, got, written, want, *model, err)
			}
			read, err := endpoint.ReadRecord(ctx, ref, ReadRecordRequest{})
			if err != nil || !model.equal(read) {
				t.Fatalf("read %+v, want %+v: %v", read, *model, err)
			}
		}
	})
}

func (m *register) equal(r Record) bool {
	return r.Exists == (m.epoch > 0) && r.Epoch == m.epoch && r.Settled == m.settled && bytes.Equal(r.Blob, m.blob)
}

func TestRegister(t *testing.T) { onBoth(t, testRegister) }

func TestLargestEpoch(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		ctx, endpoint, ref := context.Background(), NewEndpoint(client), RecordKeys("", "t", "limit")
		for epoch := int64(MaxEpoch - 1); epoch <= MaxEpoch; epoch++ {
			if r, written, err := endpoint.WriteRecord(ctx, ref,
				WriteRecordRequest{Expect: ExpectOlder, Epoch: epoch, Keep: time.Hour}); !written || r.Epoch != epoch {
				t.Errorf("%+v %v", r, err)
			}
			reply, err := endpoint.Take(ctx, ShardKeys("", "t", "limit"),
				ones(proposal(t, epoch, MaxPermits, MaxWindow), MaxPermits))
			if err != nil || reply.Epoch != epoch || reply.Used != MaxPermits {
				t.Errorf("%+v %v", reply, err)
			}
		}
	})
}

func TestRecordAges(t *testing.T) {
	c := newClock(t)
	ctx, endpoint, ref := context.Background(), NewEndpoint(miniClient(t, c.Miniredis)), RecordKeys("", "t", "limit")
	write := func(epoch int64, age time.Duration) Record {
		t.Helper()
		r, written, err := endpoint.WriteRecord(ctx, ref,
			WriteRecordRequest{Expect: ExpectOlder, Epoch: epoch, Keep: time.Minute, BornAge: age})
		if err != nil || !written {
			t.Fatal(written, err)
		}
		return r
	}
	if r := write(1, time.Hour); r.Age != time.Hour || r.Now != c.now.UnixMicro() {
		t.Errorf("a copy: %+v", r)
	}
	c.forward(time.Second)
	if r := write(2, 0); r.Age != time.Hour+time.Second {
		t.Errorf("what is stored keeps its birth: %+v", r)
	}
	c.forward(-3 * time.Hour)
	if r := write(3, 0); r.Age != 0 {
		t.Errorf("older than its birth: %+v", r)
	}
	if err := endpoint.DropRecord(ctx, ref); err != nil {
		t.Fatal(err)
	}
	if r := write(1, 0); r.Age != 0 {
		t.Errorf("new: %+v", r)
	}
}

func TestRecordTimeToLive(t *testing.T) {
	c := newClock(t)
	ctx, endpoint, ref := context.Background(), NewEndpoint(miniClient(t, c.Miniredis)), RecordKeys("", "t", "limit")
	if _, _, err := endpoint.WriteRecord(ctx, ref, WriteRecordRequest{Epoch: 1, Keep: time.Minute}); err != nil {
		t.Fatal(err)
	}
	expect := func(record, participants time.Duration) {
		t.Helper()
		if r, p := c.TTL(ref.record), c.TTL(ref.participants); r != record || p != participants {
			t.Errorf("record lives %v, participants %v; want %v, %v", r, p, record, participants)
		}
	}
	read := func(participant string) Record {
		t.Helper()
		r, err := endpoint.ReadRecord(ctx, ref,
			ReadRecordRequest{Participant: participant, ParticipantTTL: 10 * time.Second, Keep: 2 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	c.forward(time.Second)
	read("")
	expect(59*time.Second, 0)
	read("a")
	expect(2*time.Minute, 10*time.Second)
	c.forward(5 * time.Second)
	if _, written, err := endpoint.WriteRecord(ctx, ref,
		WriteRecordRequest{Expect: 7, Epoch: 8, Keep: time.Hour}); written || err != nil {
		t.Fatal(written, err)
	}
	expect(115*time.Second, 5*time.Second)
	c.forward(2 * time.Minute)
	if len(c.Keys()) != 0 {
		t.Errorf("%q live for ever", c.Keys())
	}
	read("a") // no record, still a participant
	expect(0, 10*time.Second)
}

func TestParticipants(t *testing.T) {
	c := newClock(t)
	ctx, endpoint, ref := context.Background(), NewEndpoint(miniClient(t, c.Miniredis)), RecordKeys("", "t", "limit")
	heartbeat := func(name string) int64 {
		t.Helper()
		r, err := endpoint.ReadRecord(ctx, ref,
			ReadRecordRequest{Participant: name, ParticipantTTL: 10 * time.Second, Keep: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return r.Participants
	}
	for i := range 200 {
		if n := heartbeat(fmt.Sprint("early ", i)); n != int64(i+1) {
			t.Fatalf("%d participants, want %d", n, i+1)
		}
	}
	if n := heartbeat("early 7"); n != 200 {
		t.Errorf("known ones count once, not %d", n)
	}
	c.forward(10*time.Second - time.Microsecond)
	if n := heartbeat("late"); n != 201 {
		t.Errorf("%d participants just in time", n)
	}
	// The count is exact at once; the names go in bounded steps.
	c.forward(time.Microsecond)
	for _, left := range []int64{137, 73, 9, 1, 1} {
		n := heartbeat("late")
		if card, err := c.ZMembers(ref.participants); n != 1 || err != nil || int64(len(card)) != left {
			t.Errorf("%d participants in a set of %d, want 1 in %d: %v", n, len(card), left, err)
		}
	}
	// Seen in the far future: before the clock went back.
	c.forward(-time.Hour)
	if n := heartbeat("early 1"); n != 1 {
		t.Errorf("%d participants", n)
	}
}

func TestParticipantsAreCapped(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	ctx, endpoint, ref := context.Background(), NewEndpoint(client), RecordKeys("", "t", "limit")
	now := strconv.FormatInt(time.Now().UnixMicro(), 10)
	words := []string{"ZADD", ref.participants}
	for i := range MaxParticipants - 1 {
		words = append(words, now, strconv.Itoa(i))
	}
	command(t, client, words...)
	for i, name := range []string{"last", "one too many", "last", "17"} {
		r, err := endpoint.ReadRecord(ctx, ref,
			ReadRecordRequest{Participant: name, ParticipantTTL: time.Hour, Keep: time.Hour})
		if err != nil || r.Participants != MaxParticipants {
			t.Errorf("%d: %d participants: %v", i, r.Participants, err)
		}
	}
}

func TestForeignRecord(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		ctx, endpoint, ref := context.Background(), NewEndpoint(client), RecordKeys("", "t", "limit")
		operations := map[string]func() error{
			"write": func() error {
				_, _, err := endpoint.WriteRecord(ctx, ref,
					WriteRecordRequest{Expect: ExpectOlder, Epoch: 9, Keep: time.Hour})
				return err
			},
			"read": func() error { _, err := endpoint.ReadRecord(ctx, ref, ReadRecordRequest{}); return err },
			"register": func() error {
				_, err := endpoint.ReadRecord(ctx, ref,
					ReadRecordRequest{Participant: "p", ParticipantTTL: time.Hour, Keep: time.Hour})
				return err
			},
			"drop": func() error { return endpoint.DropRecord(ctx, ref) },
		}
		for name, words := range map[string][]string{
			"a string":         {"SET", ref.record, "x"},
			"another hash":     {"HSET", ref.record, "a", "b"},
			"no epoch":         {"HSET", ref.record, "settled", "1", "born", "1", "blob", "x"},
			"a word for epoch": {"HSET", ref.record, "epoch", "x", "settled", "1", "born", "1", "blob", "x"},
			"settled 2":        {"HSET", ref.record, "epoch", "1", "settled", "2", "born", "1", "blob", "x"},
			"participants":     {"SET", ref.participants, "x"},
		} {
			for operation, call := range operations {
				ours := operation == "drop" && (name == "settled 2" || name == "a word for epoch")
				if ours || operation == "write" && name == "participants" {
					continue // drop gets rid of what is ours though damaged; a write does not look at participants
				}
				command(t, client, "DEL", ref.record, ref.participants)
				command(t, client, words...)
				before := content(t, client, words[1])
				var state *StateError
				if err := call(); !errors.As(err, &state) || state.Key != words[1] {
					t.Errorf("%s of %s: %v", operation, name, err)
				}
				if after := content(t, client, words[1]); fmt.Sprint(before) != fmt.Sprint(after) {
					t.Errorf("%s changed %v to %v", operation, before, after)
				}
			}
		}
	})
}

func TestDropRecord(t *testing.T) {
	m := miniredis.RunT(t)
	ctx, endpoint, ref := context.Background(), NewEndpoint(miniClient(t, m)), RecordKeys("", "t", "limit")
	for range 2 { // what is not there is no error
		if err := endpoint.DropRecord(ctx, ref); err != nil || len(m.Keys()) != 0 {
			t.Fatal(m.Keys(), err)
		}
		if _, _, err := endpoint.WriteRecord(ctx, ref,
			WriteRecordRequest{Expect: ExpectOlder, Epoch: 1, Keep: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if _, err := endpoint.ReadRecord(ctx, ref,
			ReadRecordRequest{Participant: "p", ParticipantTTL: time.Hour, Keep: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
}
