package fairness

import "github.com/shardlimit/shardlimit/internal/limittest"

// onTwins has calls of shards go to the twins of the scripts: see testdata/ablation/twins.go.
var onTwins = limittest.SwitchOff{Name: "redis", Edits: []limittest.Edit{
	{"\tchooseFull(sections)\n", "\tif !BROKEN {\n\t\tfor _, s := range sections {\n" +
		"\t\t\tsimulated(e, s.Ref, func(t Twin, now int64) { s.Reply = t.Take(now, s.Request) })\n" +
		"\t\t}\n\t\treturn nil\n\t}\n\tchooseFull(sections)\n"},
	{"\treply, err := e.run(ctx, s.program(reserveProgram)",
		"\tvar twin ReserveReply\n\tif !BROKEN {\n\t\tsimulated(e, s, func(t Twin, now int64) { twin = " +
			"t.Reserve(now, r) })\n" +
			"\t\treturn twin, nil\n\t}\n\treply, err := e.run(ctx, s.program(reserveProgram)"},
	{"\tvar room [10]string\n\tnumber, named := s.program(settleProgram)",
		"\tvar twin SettleReply\n\tif !BROKEN {\n\t\tsimulated(e, s, func(t Twin, now int64) { twin = t.Settle(now, " +
			"r) })\n\t\t" +
			"return twin, nil\n\t}\n\tvar room [10]string\n\tnumber, named := s.program(settleProgram)"},
	{"\treply, err := e.run(ctx, s.program(peekProgram)",
		"\tvar twin PeekReply\n\tif !BROKEN {\n\t\tsimulated(e, s, func(t Twin, now int64) { twin = t.Peek(now) " +
			"})\n\t\t" +
			"return twin, nil\n\t}\n\treply, err := e.run(ctx, s.program(peekProgram)"},
}}

// mechanism is a part of the rule of fairness that can be left out.
type mechanism struct {
	limittest.SwitchOff
	purpose string
}

func mechanisms() []mechanism {
	left := func(name, purpose string, edits ...limittest.Edit) mechanism {
		return mechanism{limittest.SwitchOff{Name: name, Edits: edits}, purpose}
	}
	return []mechanism{
		left("headroom", "those who come seldom find a permit",
			limittest.Edit{"\tif kept := headroomPart * float64(t.Share); kept >= 2 {",
				"\tif kept := headroomPart * float64(t.Share); kept >= 2 && !BROKEN {"}),
		left("unmet demand", "demand that the shard cannot see",
			limittest.Edit{"\ta.unmet = min(a.unmet+2*caller.Unmet, most)\n", "\tif !BROKEN {\n\t\ta.unmet = " +
				"min(a.unmet+2*caller.Unmet, most)\n\t}\n"}),
		left("waiting", "the same, of callers that wait",
			limittest.Edit{"min(max(a.used+a.unmet+caller.Waiting*milli, unhindered)",
				"min(max(a.used+a.unmet+map[bool]int64{false: 1}[BROKEN]*caller.Waiting*milli, unhindered)"}),
		left("use/(1 - f) of waiters", "waiting callers ask for nothing else",
			limittest.Edit{"\tif caller.Waiting > 0 {\n\t\ta.waited",
				"\tif caller.Waiting > 0 && !BROKEN {\n\t\ta.waited"}),
		left("half a window longer for the refused", "who waits because it was told to is not silent",
			limittest.Edit{"\tif !lacks && (a.longer > 0 ||", "\tif !lacks && (a.longer > 0 || BROKEN ||"}),
		left("who waits and lacks permits is heavy", "who never finds a permit",
			limittest.Edit{"\tlacks := a.heavy == 0 &&", "\tlacks := !BROKEN && a.heavy == 0 &&"}),
		left("a pause while nothing is free", "not all come at the same release",
			limittest.Edit{"\tif p.heavy > 0 && refused > left {", "\tif p.heavy > 0 && refused > left && !BROKEN {"}),
		left("who got all need not come in vain", "fewer calls in vain",
			limittest.Edit{"\tif unserved == 0 && p.heavy > 0 {\n",
				"\tif unserved == 0 && p.heavy > 0 && !BROKEN {\n"}),
		left("the root in the depth", "small parts hold more than a seventh",
			limittest.Edit{"depthPart*e, depthRoot*math.Sqrt(e)",
				"depthPart*e, map[bool]float64{false: 1}[BROKEN]*depthRoot*" +
					"math.Sqrt(e)"}),
		left("a new name shares an account", "inventing names",
			limittest.Edit{"\tif a == nil {\n\t\tl.begin(t, caller.ID)\n\t\tif l.count",
				"\tif BROKEN && a == nil {\n\t\tl.begin(t, caller.ID)\n\t\tl.count++\n" +
					"\t\ta = &account{weight: caller.Weight, empty: t.Now}\n\t\tl.accounts[caller.ID] = a\n\t}\n" +
					"\tif a == nil {\n\t\tl.begin(t, caller.ID)\n\t\tif l.count"}),
	}
}
