package histories

import (
	"testing"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// breakage is a rule that keeps a promise, switched off. Where two rules keep it, both are.
type breakage struct {
	name  string
	theme string // of the histories that find it
	kind  string // of the finding
	seed  uint64 // of a history that found it
	edits []limittest.Edit
}

var breakages = []breakage{
	{"a decision is settled as often as for another use", "mixed", "over", 475, []limittest.Edit{
		{`Mark: s.mark + "." + strconv.Itoa(place),`,
			`Mark: s.mark + "." + strconv.Itoa(place) + map[bool]string{true: strconv.FormatInt(s.used, 36)}[BROKEN],`},
	}},
	{"an idle process wakes after its limit was divided anew", "idle", "over", 14, []limittest.Edit{
		{"\tif r.Highest.Load() > epoch {\n\t\treturn 0\n\t}\n\treturn r.Until(epoch, elapsed)",
			"\tif BROKEN {\n\t\treturn r.Until(r.Limit.Layout().Epoch, elapsed)\n\t}\n\tif r.Highest.Load() > epoch {\n" +
				"\t\treturn 0\n\t}\n\treturn r.Until(epoch, elapsed)"},
		{"\tc.leave(p.Layout)\n", "\tif !BROKEN {\n\t\tc.leave(p.Layout)\n\t}\n"},
	}},
	{"a lease lasts as long as under the limit before", "lease", "over", 91, []limittest.Edit{
		{"q.since >= l.Until || l.epoch != r.Layout.Epoch ||", "q.since >= l.Until || !BROKEN && l.epoch != r.Layout.Epoch ||"},
		{"c.Record().Highest.Load() > l.epoch ||", "!BROKEN && c.Record().Highest.Load() > l.epoch ||"},
		{"l != nil && l.epoch != r.Layout.Epoch {", "l != nil && !BROKEN && l.epoch != r.Layout.Epoch {"},
	}},
	{"two layouts stay after a record was lost", "records", "over", 1132, []limittest.Edit{
		{"return t != nil && t.Epoch > than.Epoch", "return t != nil && !BROKEN && t.Epoch > than.Epoch"},
		{"r.Learn(layout.Epoch, began)\n",
			"r.Learn(layout.Epoch, began)\n\tif BROKEN {\n\t\tr.Learn(r.Limit.Layout().Epoch, began)\n\t}\n"},
	}},
	{"a queue of the process is taken for an outage", "crowd", "outage", 30, []limittest.Edit{
		{"case least > 1 && acc.Shard.Known.Answered(since+1):",
			"case !BROKEN && least > 1 && acc.Shard.Known.Answered(since+1):"},
		{"\t\tseen.queued = true\n\t\treturn v.denied",
			"\t\tif BROKEN {\n\t\t\t*d, err = v.member.outage(v.Routes, n, false, dispatch.ErrOverloaded)\n\t\t\treturn " +
				"err\n\t\t}\n\t\tseen.queued = true\n\t\treturn v.denied"},
	}},
	{"each process places keys over its own nodes", "drains", "over", 1060, []limittest.Edit{{
		"layout, err := ft.Layout.ForKey(c.ID, came)",
		"own := ft.Layout\n\t\tif keys := *own.Keys; BROKEN {\n" +
			"\t\t\tkeys.Nodes, keys.Before, own.Keys = f.Of.Process.Nodes.Roster().All(), nil, &keys\n\t\t}\n" +
			"\t\tlayout, err := own.ForKey(c.ID, came)",
	}}},
	{"an older limit of a key undoes a newer one", "family", "over", 34, []limittest.Edit{{
		"\t\tterms.Revision = layout.Revision\n",
		"\t\tif !BROKEN {\n\t\t\tterms.Revision = layout.Revision\n\t\t}\n",
	}}},
	{"a quarantine lasts a window only", "change", "over", 24, []limittest.Edit{{
		"quarantine(layout.Window),\n\t}\n",
		"quarantine(layout.Window),\n\t}\n\tif BROKEN {\n\t\tterms.Quarantine = min(terms.Quarantine, 1)\n\t}\n",
	}}},
	{"a takeover waits for nothing", "lost", "over", 3, []limittest.Edit{{
		"\treturn max(majority.GivenUp(relied, lasts)-outFor, 0), true\n",
		"\tif BROKEN {\n\t\treturn 0, true\n\t}\n\treturn max(majority.GivenUp(relied, lasts)-outFor, " +
			"0), true\n",
	}}},
	{"a fence is left out", "lost", "over", 3, []limittest.Edit{
		{"\tcase f == nil:\n\t\treturn 0\n", "\tcase BROKEN || f == nil:\n\t\treturn 0\n"},
		{"return !sh.Terms.Load().bars(sh) &&", "return (BROKEN || !sh.Terms.Load().bars(sh)) &&"},
		{"return f != nil && f.Until(b.now()) == 0",
			"return !BROKEN && f != nil && f.Until(b.now()) == 0"},
	}},
	{"one place is a majority", "lost", "over", 18, []limittest.Edit{{
		"func Majority(places int) int { return places/2 + 1 }",
		"func Majority(places int) int {\n\tif BROKEN {\n\t\treturn 1\n\t}\n\treturn places/2 + 1\n}",
	}}},
	{"a round goes on from the lowest ballot", "lost", "over", 43, []limittest.Edit{{
		"\t\t\t(best == nil || best.Accepted.Below(a.Accepted)) {\n\t\t\tbest = a\n\t\t}\n\t}\n\tif best == nil {\n" +
			"\t\treturn Found{Known",
		"\t\t\t(best == nil || BROKEN != best.Accepted.Below(a.Accepted)) {\n\t\t\tbest = a\n\t\t}\n\t}\n\tif best == nil {\n" +
			"\t\treturn Found{Known",
	}}},
	{"a layout that settles forgets what counts still", "ahead", "over", 2, []limittest.Edit{{
		"\tl.Lasts, l.Left = l.countsAfter(held)\n",
		"\tif l.Lasts, l.Left = l.countsAfter(held); BROKEN {\n\t\tl.Lasts, l.Left = 0, 0\n\t}\n",
	}}},
	{"records are used where they move to before they are copied", "drains", "over", 151, []limittest.Edit{{
		"\trecords, err := m.list(ctx)\n\tif err != nil {",
		"\tif BROKEN {\n\t\terr = m.announce(ctx)\n\t\tm.follow(m.to)\n\t\treturn err\n\t}\n" +
			"\trecords, err := m.list(ctx)\n\tif err != nil {",
	}}},
	{"time stands still while a machine is suspended", "suspend", "over", 10086, []limittest.Edit{
		{"\treturn Elapsed(now + c.asleep.Load())\n",
			"\tif BROKEN {\n\t\treturn Elapsed(now)\n\t}\n\treturn Elapsed(now + c.asleep.Load())\n"},
		{"(only || heard.since <= began)", "(BROKEN || only || heard.since <= began)"},
		// else the time of the node tells
	}},
	{"a call ends by the clock that was heard last", "lost", "over", 805, []limittest.Edit{{
		"int64(received)/int64(time.Microsecond), received}\n",
		"int64(received)/int64(time.Microsecond), received}\n\tif BROKEN {\n\t\theard.since = 1\n\t}\n",
	}}},
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
		if _, failing := playAll(binary, *historySeed, extent.Some(120), true); len(failing) > 0 {
			t.Errorf("seeds %v", failing)
		}
	})
	for _, b := range breakages {
		t.Run(b.name, func(t *testing.T) {
			sound, broken := &stage{binary: binary},
				&stage{binary: binary, env: []string{limittest.BreakVariable + "=" + b.name}}
			defer sound.close()
			defer broken.close()
			of := order{From: b.seed, To: b.seed + 1, Theme: b.theme}
			if broken.play(of).shows(b.kind) != nil {
				if found := sound.play(of).shows(b.kind); found != nil {
					t.Errorf("seed %d shows the same without the break: %s", b.seed, found.Text)
				}
				return
			}
			const most = 300
			for of = (order{To: 1, Theme: b.theme}); of.From < most; of.From, of.To = of.From+1, of.To+1 {
				if broken.play(of).shows(b.kind) != nil {
					t.Logf("found by seed %d", of.From)
					return
				}
			}
			t.Errorf("%d histories did not find it", most)
		})
	}
}
