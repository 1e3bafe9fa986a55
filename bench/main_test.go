package main

import (
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	var out strings.Builder
	j, err := parse([]string{"exact", "--rounds", "3", "--for", "2s", "--goroutines", "1, 64", "--rivals", "shardlimit,ulule"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if len(j.scenarios) != 1 || j.scenarios[0].Name != "exact" || j.env.Rounds != 3 || j.env.For != 2*time.Second ||
		!slices.Equal(j.env.Goroutines, []int{1, 64}) || len(j.env.Rivals) != 2 || j.env.Redisson {
		t.Errorf("parsed %+v", j)
	}
	if j.results != "results" || j.document == "" {
		t.Errorf("results to %q, document to %q; want the committed places", j.results, j.document)
	}
	if !strings.HasPrefix(j.command, "go -C bench run . exact --rounds 3") {
		t.Errorf("command %q", j.command)
	}
}

func TestSmokeStaysOutOfTheResults(t *testing.T) {
	for _, args := range [][]string{{"all", "--smoke"}, {"lone", "--out", "elsewhere"}} {
		j, err := parse(args, &strings.Builder{})
		if err != nil {
			t.Fatal(err)
		}
		if j.results == "results" || j.document != "" {
			t.Errorf("%v: results to %q, document to %q", args, j.results, j.document)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, args := range [][]string{
		{}, {"nothing"}, {"exact", "more"}, {"exact", "--no-such-flag"}, {"exact", "--goroutines", "0"},
		{"exact", "--goroutines", "1,x"}, {"exact", "--rivals", "nobody"}, {"exact", "--rounds", "-1"}, {"exact", "--time", "0"}, {"exact", "--time", "NaN"}, {"--smoke"},
	} {
		if _, err := parse(args, &strings.Builder{}); !errors.Is(err, errUsage) {
			t.Errorf("%v: err %v, want a usage error", args, err)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"exact", "--help"}} {
		var out strings.Builder
		if _, err := parse(args, &out); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%v: err %v, want help", args, err)
		}
		for _, want := range []string{"exact", "lone", "size", "report", "redis_rate", "-smoke", "example:"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v: help lacks %q", args, want)
			}
		}
	}
}
