package scenario

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/bench/internal/gateway"
	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
)

// TestGatewayRoundIsCompared: with the same column of the same round, and only with that.
func TestGatewayRoundIsCompared(t *testing.T) {
	all := make(gatewayRound)
	for _, f := range []struct {
		variant string
		column  int
		cpu     float64
		p99     float64
	}{
		{gateway.HTTPLimit, 0, 17, 300}, {gateway.None, 0, 12, 100}, {gateway.Bare, 0, 30, 200},
		{gateway.HTTPLimit, 1, 21, 50}, {gateway.None, 1, 20, 10}, {gateway.HTTPLimit, 2, 9, 9},
	} {
		err := all.note(f.variant, f.column)(map[string]float64{"cpu": f.cpu, "p99": f.p99}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	boom := errors.New("boom")
	if err := all.note(gateway.Ulule, 0)(nil, boom); !errors.Is(err, boom) {
		t.Errorf("err %v, want that of the turn", err)
	}
	if err := all.note(gateway.Ulule, 0)(nil, errIdle); err != nil {
		t.Errorf("err %v for one that did not answer, which costs the others nothing", err)
	}
	all.compare()
	var result report.Result
	found := newFindings()
	all.addTo(found)
	found.addTo(&result)
	for _, want := range []struct {
		variant, metric string
		column          float64
		value           float64
	}{
		{gateway.HTTPLimit, "extra", 0, 5}, {gateway.Bare, "extra", 0, 18}, {gateway.HTTPLimit, "extra", 1, 1},
		{gateway.HTTPLimit, "p99-ratio", 0, 1.5}, {gateway.None, "p99-ratio", 0, 0.5},
	} {
		i := slices.IndexFunc(result.Points, func(p report.Point) bool {
			return p.Series == want.variant && p.Metric == want.metric && p.X == want.column
		})
		if i < 0 || result.Points[i].Stat.Median != want.value {
			t.Errorf("%+v is not in %+v", want, result.Points)
		}
	}
	if want := 6*2 + 3 + 3; len(result.Points) != want {
		t.Errorf("%d points, want %d", len(result.Points), want)
	}
	if result.Points[0].Series != gateway.None {
		t.Errorf("%q comes first, want %q", result.Points[0].Series, gateway.None)
	}
}

func TestGatewayColumns(t *testing.T) {
	run := gatewayRun{conns: []int{64, 512}}
	columns := gatewayViews(run.conns)[0].Cases
	if len(columns) != 4 || columns[run.denied()] != "64, denied" || columns[run.half()] != "half load" {
		t.Errorf("columns %q", columns)
	}
}

// TestGatewayAnswersThatAreWrongAreRemarked: allowed ones where all are to be denied, and denied
// ones elsewhere.
func TestGatewayAnswersThatAreWrongAreRemarked(t *testing.T) {
	for _, c := range []struct {
		variant         string
		denied          bool
		allowed, refuse int64
		remark          string
	}{
		{gateway.HTTPLimit, false, 5, 0, ""},
		{gateway.HTTPLimit, false, 5, 2, "denied 2 of 7"},
		{gateway.HTTPLimit, true, 0, 5, ""},
		{gateway.HTTPLimit, true, 3, 5, "allowed 3 of 8"},
		{gateway.None, true, 5, 0, ""},
		{gateway.Refuse, true, 0, 5, ""},
	} {
		var result report.Result
		turn := gatewayTurn{gatewayRun: &gatewayRun{result: &result}, variant: c.variant, denied: c.denied}
		turn.wrong(load.Sample{Allowed: c.allowed, Denied: c.refuse})
		got := strings.Join(result.Remarks, " ")
		if (got == "") != (c.remark == "") || !strings.Contains(got, c.remark) {
			t.Errorf("%+v: remarks %q", c, got)
		}
	}
}
