package shard_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/shard"
)

const (
	goldenSettled   = `{"v":1,"epoch":5,"settled":true,"permits":30,"window_ns":1000000000,"algorithm":"slidinglog","revision":2,"shards":[{"slot":1,"node":"a","algorithm":"slidinglog","share":10},{"slot":1,"node":"b","algorithm":"slidinglog","share":20}]}`
	goldenUnsettled = `{"v":1,"epoch":6,"settled":false,"permits":36,"window_ns":1500000,"algorithm":"slidinglog","revision":0,"lasts_ns":2000000000,"left_ns":18020000000,"shards":[{"slot":1,"node":"\u003cc\u003e","algorithm":"slidinglog","share":36},{"slot":1,"node":"a","algorithm":"slidinglog","share":0,"start":10},{"slot":1,"node":"b","algorithm":"slidinglog","share":0,"start":20}]}`
)

// goldenMoved has what only some layouts have: a burst, shards of another algorithm, a fence.
const goldenMoved = `{"v":1,"epoch":7,"settled":false,"permits":36,"window_ns":1000000000,"algorithm":"bucket","burst":72,"revision":0,"auto":true,"fence":{"lost":["b"]},"shards":[{"slot":1,"node":"a","algorithm":"bucket","share":36,"burst":72,"incarnation":"x-2"},{"slot":1,"node":"a","algorithm":"slidinglog","share":0,"start":10},{"slot":1,"node":"b","algorithm":"slidinglog","share":0,"start":20}]}`

// goldenMode has a mode.
const goldenMode = `{"v":1,"epoch":6,"settled":false,"permits":30,"window_ns":1000000000,"algorithm":"slidinglog","revision":2,"mode":"off","shards":[{"slot":1,"node":"a","algorithm":"slidinglog","share":10,"start":10},{"slot":1,"node":"b","algorithm":"slidinglog","share":20,"start":20}]}`

// TestGolden pins the stored form.
func TestGolden(t *testing.T) {
	s := spec(30)
	s.Revision = 2
	settled := must(t)(shard.New(nil, 5, s, on("a", 10, "b", 20)))
	s = spec(36)
	s.Window = 1500 * time.Microsecond
	bucket := shard.Spec{Permits: 36, Window: time.Second, Algorithm: "bucket", Burst: 72, Auto: true}
	fenced := settled
	fenced.Fence = &shard.Fence{Lost: []string{"b"}}
	again := on("a", 36)
	again[0].Incarnation = "x-2"
	off := settled.Spec
	off.Mode = "off"
	keys := succeed(t, family(t, 5, spec(30), someNodes(1)), spec(30), someNodes(2))
	keys.Keys.Before[0].LeftFor = 17
	for want, l := range map[string]shard.Layout{
		goldenSettled:   settled,
		goldenUnsettled: must(t)(settled.Change(6, s, on("<c>", 36), 0)),
		goldenMoved:     must(t)(fenced.Change(7, bucket, again, 0)),
		goldenKeys:      keys,
		goldenMode:      must(t)(settled.Change(6, off, on("a", 10, "b", 20), 0)),
	} {
		got, err := json.Marshal(l)
		if err != nil || string(got) != want {
			t.Errorf("stored as %s, %v\nwant      %s", got, err, want)
		}
		var back shard.Layout
		if err := json.Unmarshal([]byte(want), &back); err != nil || !reflect.DeepEqual(back, l) {
			t.Errorf("read as %+v, %v\nwant    %+v", back, err, l)
		}
	}
}

func TestDecodeStrict(t *testing.T) {
	edit := func(from, to string) string { return strings.Replace(goldenUnsettled, from, to, 1) }
	for name, data := range map[string]string{
		"empty":         ``,
		"truncated":     goldenUnsettled[:len(goldenUnsettled)-1],
		"trailing":      goldenUnsettled + `{}`,
		"version":       edit(`"v":1`, `"v":2`),
		"unknown field": edit(`"v":1`, `"v":1,"x":0`),
		"other case":    edit(`"epoch"`, `"Epoch"`),
		"float":         edit(`"permits":36`, `"permits":36.0`),
		"not UTF-8":     edit(`"node":"a"`, "\"node\":\"\xff\""),
		"sum":           edit(`"share":36`, `"share":35`),
	} {
		before := must(t)(shard.New(nil, 1, spec(1), on("a", 1)))
		l := before
		if err := l.UnmarshalJSON([]byte(data)); !errors.Is(err, shard.ErrInvalidLayout) {
			t.Errorf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(l, before) {
			t.Errorf("%s: an error changed the layout to %+v", name, l)
		}
	}
	var l shard.Layout
	if err := l.UnmarshalJSON([]byte(edit(`"v":1`, `"v":2`))); err == nil ||
		!strings.Contains(err.Error(), "version 2") {
		t.Errorf("an unknown version is not named: %v", err)
	}
	if err := json.Unmarshal([]byte(" "+strings.ReplaceAll(goldenUnsettled, ",", " ,\n")), &l); err != nil {
		t.Errorf("white space: %v", err)
	}
}

// FuzzDecode: what is accepted can be written, and reads as it was.
func FuzzDecode(f *testing.F) {
	for _, data := range []string{goldenSettled, goldenUnsettled, goldenMoved, goldenKeys, `{}`, `{"v":1}`,
		strings.ToUpper(goldenSettled)} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var l shard.Layout
		if err := l.UnmarshalJSON(data); err != nil {
			if !errors.Is(err, shard.ErrInvalidLayout) {
				t.Errorf("error of another kind: %v", err)
			}
			return
		}
		again, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var back shard.Layout
		if err := json.Unmarshal(again, &back); err != nil || !reflect.DeepEqual(back, l) {
			t.Errorf("%+v became %+v, %v", l, back, err)
		}
	})
}
