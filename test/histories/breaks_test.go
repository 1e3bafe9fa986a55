package histories

import (
	"slices"
	"testing"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// breakage is a rule that keeps a promise, switched off. Where two rules keep it, both are.
type breakage struct {
	name  string
	theme string   // of the histories that find it
	kind  string   // of the finding
	seeds []uint64 // of histories that found it
	edits []limittest.Edit
}

var breakages = []breakage{
	{
		name: "a decision is settled as often as for another use", theme: "mixed", kind: "over", seeds: []uint64{820},
		edits: []limittest.Edit{
			{`Mark: s.mark + "." + strconv.Itoa(place),`,
				`Mark: s.mark + "." + strconv.Itoa(place) + map[bool]string{true: strconv.FormatInt(s.used, 36)}[BROKEN],`},
		},
	},
	{
		name: "an idle process wakes after its limit was divided anew", theme: "idle", kind: "over", seeds: []uint64{8},
		edits: []limittest.Edit{
			{"\tif r.Highest.Load() > epoch {\n\t\treturn 0\n\t}\n\treturn r.Until(epoch, elapsed)",
				"\tif BROKEN {\n\t\treturn r.Until(r.Limit.Layout().Epoch, elapsed)\n\t}\n\tif r.Highest.Load() > epoch {\n" +
					"\t\treturn 0\n\t}\n\treturn r.Until(epoch, elapsed)"},
			{"\tc.leave(p.Layout)\n", "\tif !BROKEN {\n\t\tc.leave(p.Layout)\n\t}\n"},
		},
	},
	{
		name: "a lease lasts as long as under the limit before", theme: "lease", kind: "over", seeds: []uint64{10},
		edits: []limittest.Edit{
			{"q.since >= l.Until || l.epoch != r.Layout.Epoch ||", "q.since >= l.Until || !BROKEN && l.epoch != r.Layout.Epoch ||"},
			{"c.Record().Highest.Load() > l.epoch ||", "!BROKEN && c.Record().Highest.Load() > l.epoch ||"},
			{"l != nil && l.epoch != r.Layout.Epoch {", "l != nil && !BROKEN && l.epoch != r.Layout.Epoch {"},
		},
	},
	{
		name: "two layouts stay after a record was lost", theme: "records", kind: "over", seeds: []uint64{847},
		edits: []limittest.Edit{
			{"return t != nil && (t.Later(*than) ||", "return t != nil && !BROKEN && (t.Later(*than) ||"},
			{"r.Learn(layout.Epoch, began)\n",
				"r.Learn(layout.Epoch, began)\n\tif BROKEN {\n\t\tr.Learn(r.Limit.Layout().Epoch, began)\n\t}\n"},
		},
	},
	{
		name: "a queue of the process is taken for an outage", theme: "crowd", kind: "outage", seeds: []uint64{423},
		edits: []limittest.Edit{
			{"case least > 1 && s.Lane.Known.Answered(since+1):",
				"case !BROKEN && least > 1 && s.Lane.Known.Answered(since+1):"},
			{"\t\tseen.queued = true\n\t\treturn v.denied",
				"\t\tif BROKEN {\n\t\t\t*d, err = v.member.outage(v.Routes, n, false, dispatch.ErrOverloaded)\n\t\t\treturn " +
					"err\n\t\t}\n\t\tseen.queued = true\n\t\treturn v.denied"},
		},
	},
	{
		name: "each process places keys over its own nodes", theme: "drains", kind: "over", seeds: []uint64{23},
		edits: []limittest.Edit{{"layout, err := ft.Layout.ForKey(c.ID, came)",
			"own := ft.Layout\n\t\tif keys := *own.Keys; BROKEN {\n" +
				"\t\t\tkeys.Nodes, keys.Before, own.Keys = f.Of.Process.Nodes.Roster().All(), nil, &keys\n\t\t}\n" +
				"\t\tlayout, err := own.ForKey(c.ID, came)"}},
	},
	{
		name: "an older limit of a key undoes a newer one", theme: "family", kind: "over", seeds: []uint64{56},
		edits: []limittest.Edit{{"\t\tterms.Revision = layout.Revision\n",
			"\t\tif !BROKEN {\n\t\t\tterms.Revision = layout.Revision\n\t\t}\n"}},
	},
	{
		name: "a quarantine lasts a window only", theme: "change", kind: "over", seeds: []uint64{2},
		edits: []limittest.Edit{{"(layout.Window), Least: node.Relied,\n\t}\n",
			"(layout.Window),\n\t}\n\tif !BROKEN {\n\t\tterms.Least = node.Relied\n\t}\n"}},
	},
	{
		name: "a takeover waits for nothing", theme: "lost", kind: "over", seeds: []uint64{1},
		edits: []limittest.Edit{{"\treturn max(majority.GivenUp(relied, lasts)-outFor, 0), true\n",
			"\tif BROKEN {\n\t\treturn 0, true\n\t}\n\treturn max(majority.GivenUp(relied, lasts)-outFor, " +
				"0), true\n"}},
	},
	{
		name: "a fence is left out", theme: "lost", kind: "over", seeds: []uint64{136},
		edits: []limittest.Edit{
			{"\tcase f == nil:\n\t\treturn 0\n", "\tcase BROKEN || f == nil:\n\t\treturn 0\n"},
			{"return (p.terms.Fence == nil || !p.terms.Fence.Bars(p.way.Node, p.way.Life)) &&",
				"return (BROKEN || p.terms.Fence == nil || !p.terms.Fence.Bars(p.way.Node, p.way.Life)) &&"},
			{"return f != nil && f.Until(b.now()) == 0",
				"return !BROKEN && f != nil && f.Until(b.now()) == 0"},
		},
	},
	{
		name: "one place is a majority", theme: "lost", kind: "over", seeds: []uint64{46},
		edits: []limittest.Edit{{"func Majority(places int) int { return places/2 + 1 }",
			"func Majority(places int) int {\n\tif BROKEN {\n\t\treturn 1\n\t}\n\treturn places/2 + 1\n}"}},
	},
	{
		name: "a round goes on from the lowest ballot", theme: "lost", kind: "over", seeds: []uint64{27},
		edits: []limittest.Edit{{"\t\t\t(best == nil || best.Accepted.Below(a.Accepted)) {\n\t\t\tbest = a\n\t\t}\n\t}\n\tif best == nil {\n" +
			"\t\treturn Found{Known",
			"\t\t\t(best == nil || BROKEN != best.Accepted.Below(a.Accepted)) {\n\t\t\tbest = a\n\t\t}\n\t}\n\tif best == nil {\n" +
				"\t\treturn Found{Known"}},
	},
	{
		name: "a layout that settles forgets what counts still", theme: "ahead", kind: "over", seeds: []uint64{12},
		edits: []limittest.Edit{{"\tl.Lasts, l.Left = l.countsAfter(held)\n",
			"\tif l.Lasts, l.Left = l.countsAfter(held); BROKEN {\n\t\tl.Lasts, l.Left = 0, 0\n\t}\n"}},
	},
	{
		name: "records are used where they move to before they are copied", theme: "drains", kind: "over",
		seeds: []uint64{856},
		edits: []limittest.Edit{{"\trecords, err := b.list(ctx, from)\n\tif err != nil {",
			"\tif BROKEN {\n\t\terr = b.announce(ctx, to)\n\t\tb.follow(to)\n\t\treturn err\n\t}\n" +
				"\trecords, err := b.list(ctx, from)\n\tif err != nil {"}},
	},
	{
		name: "time stands still while a machine is suspended", theme: "suspend", kind: "over", seeds: []uint64{72},
		edits: []limittest.Edit{
			{"\treturn Elapsed(now + c.SuspendedAt(now))\n",
				"\tif BROKEN {\n\t\treturn Elapsed(now)\n\t}\n\treturn Elapsed(now + c.SuspendedAt(now))\n"},
			{"(only || heard.since <= began)", "(BROKEN || only || heard.since <= began)"},
			// else the time of the node tells
		},
	},
	{
		name: "a call ends by the clock that was heard last", theme: "lost", kind: "over", seeds: []uint64{190},
		edits: []limittest.Edit{{"int64(received)/int64(time.Microsecond), received}\n",
			"int64(received)/int64(time.Microsecond), received}\n\tif BROKEN {\n\t\theard.since = 1\n\t}\n"}},
	},
}

// TestHistoriesFindWhatIsBroken switches rules off, one break after the other, and has the
// generator of histories find each.
func TestHistoriesFindWhatIsBroken(t *testing.T) {
	if race.Enabled {
		return // see TestHistories
	}
	var changes []limittest.SwitchOff
	for _, b := range breakages {
		changes = append(changes, limittest.SwitchOff{Name: b.name, Edits: b.edits})
	}
	binary := repeatablePlayer(t, changes...)
	t.Run("nothing, and each history goes one way", func(t *testing.T) {
		_, failing := playAll(t, binary, *historySeed, extent.Some(120), true)
		for kind, seeds := range failing {
			t.Errorf("%s: seeds %v", kind, seeds)
		}
	})
	for _, b := range breakages {
		t.Run(b.name, func(t *testing.T) {
			sound, broken := &stage{binary: binary},
				&stage{binary: binary, env: []string{limittest.BreakVariable + "=" + b.name}}
			defer sound.close()
			defer broken.close()
			for _, seed := range b.seeds {
				if !b.found(t, broken, seed) {
					continue
				}
				if b.found(t, sound, seed) {
					t.Errorf("the history of seed %d shows the same without the break", seed)
				}
				return
			}
			const most = 300
			for seed := range uint64(most) {
				if b.found(t, broken, seed) {
					t.Logf("found by seed %d", seed)
					return
				}
			}
			t.Errorf("%d histories did not find it", most)
		})
	}
}

// found reports whether the history of a seed shows the break.
func (b *breakage) found(t *testing.T, s *stage, seed uint64) bool {
	t.Helper()
	r, err := s.play(order{From: seed, To: seed + 1, Theme: b.theme})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Failed {
		if slices.ContainsFunc(f.Findings, func(f finding) bool { return f.Kind == b.kind }) {
			return true
		}
	}
	return false
}
