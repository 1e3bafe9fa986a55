package shardlimit_test

// onTwins has calls of shards go to the twins of the scripts: see testdata/ablation/twins.go.
var onTwins = switchOff{name: "redis", edits: []edit{
	{"\tvar room [3]string\n\treply, err := e.run(ctx, s.program(takeProgram)",
		"\tvar twin TakeReply\n\tif !BROKEN {\n\t\tsimulated(e, s, func(t Twin, now int64) { twin = t.Take(now, r) " +
			"})\n\t\t" +
			"return twin, nil\n\t}\n\tvar room [3]string\n\treply, err := e.run(ctx, s.program(takeProgram)"},
	{"\treply, err := e.run(ctx, s.program(reserveProgram)",
		"\tvar twin ReserveReply\n\tif !BROKEN {\n\t\tsimulated(e, s, func(t Twin, now int64) { twin = " +
			"t.Reserve(now, r) })\n" +
			"\t\treturn twin, nil\n\t}\n\treply, err := e.run(ctx, s.program(reserveProgram)"},
	{"\tvar room [10]string\n\tnumber, keys := s.program(settleProgram)",
		"\tvar twin SettleReply\n\tif !BROKEN {\n\t\tsimulated(e, s, func(t Twin, now int64) { twin = t.Settle(now, " +
			"r) })\n\t\t" +
			"return twin, nil\n\t}\n\tvar room [10]string\n\tnumber, keys := s.program(settleProgram)"},
	{"\treply, err := e.run(ctx, s.program(peekProgram)",
		"\tvar twin PeekReply\n\tif !BROKEN {\n\t\tsimulated(e, s, func(t Twin, now int64) { twin = t.Peek(now) " +
			"})\n\t\t" +
			"return twin, nil\n\t}\n\treply, err := e.run(ctx, s.program(peekProgram)"},
}}

// mechanism is a part of the rule of fairness that can be left out.
type mechanism struct {
	switchOff
	purpose string
}

func mechanisms() []mechanism {
	left := func(name, purpose string, edits ...edit) mechanism {
		return mechanism{switchOff{name, edits}, purpose}
	}
	return []mechanism{
		left("headroom", "those who come seldom find a permit",
			edit{"\tkept := headroomPart * float64(t.Share)\n",
				"\tkept := headroomPart * float64(t.Share)\n\tif BROKEN {\n\t\treturn 0\n\t}\n"}),
		left("no headroom on small shares", "a permit does not lie idle there",
			edit{"\tif kept < 1 && l.level", "\tif !BROKEN && kept < 1 && l.level"}),
		left("unmet demand", "demand that the shard cannot see",
			edit{"\t\tunmet := t.spread(caller.Unmet, span)\n",
				"\t\tunmet := t.spread(caller.Unmet, span)\n\t\tif BROKEN {\n\t\t\tunmet = [2]int64{}\n\t\t}\n"}),
		left("waiting", "the same, of callers that wait",
			edit{"\treported := used + unmet + float64(float64(waiting)*milli)\n",
				"\tif BROKEN {\n\t\twaiting = 0\n\t}\n\treported := used + unmet + " +
					"float64(float64(waiting)*milli)\n"}),
		left("unmet demand counts when it was", "demand of a window is not added to that of the next",
			edit{"\trecent := int64(float64(unmet) * float64(min(t.Now%t.Window, span)) / float64(span))\n",
				"\trecent := int64(float64(unmet) * float64(min(t.Now%t.Window, span)) / float64(span))\n\tif " +
					"BROKEN {\n" +
					"\t\trecent = unmet\n\t}\n"}),
		left("use/(1 - f) of waiters", "waiting callers ask for nothing else",
			edit{"\tif a.waited*2 < giga {\n\t\tunhindered",
				"\tif BROKEN {\n\t\tunhindered = 0\n\t} else if a.waited*2 < " +
					"giga {\n\t\tunhindered"}),
		left("fading", "leavers' parts are free sooner",
			edit{"\tcase idle*fading <= t.Window:", "\tcase idle*fading <= t.Window || BROKEN && idle < t.Window:"}),
		left("awake until told to come", "who waits because it was told to is not silent",
			edit{"\ta.seen = max(a.seen, a.denied)\n}", "\tif !BROKEN {\n\t\ta.seen = max(a.seen, a.denied)\n\t}\n}"}),
		left("half an equal part for the refused", "newcomers beside lumps",
			edit{"\t\tbacked = max(backed, math.Floor(float64(t.Share)*milli",
				"\t\tbacked = max(backed, math.Floor(map[bool]float64{false: 1}[BROKEN]*float64(t.Share)*milli"}),
		left("the refused want what they had", "claims do not vanish before a lump returns",
			edit{"\t\tused = greatest\n", "\t\tif !BROKEN {\n\t\t\tused = greatest\n\t\t}\n"}),
		left("the greater of two windows backs", "use falls and rises where permits come in lumps",
			edit{"\tgreatest := max(used, float64(a.used[0])*milli, float64(a.used[1])*milli)\n",
				"\tgreatest := max(used, float64(a.used[0])*milli, float64(a.used[1])*milli)\n\tif BROKEN {\n\t\t" +
					"greatest = used\n\t}\n"}),
		left("claims that fall by half a window", "who is shut out by bookings still wants",
			edit{"\t\t\tkept = math.Floor(float64(a.claim)",
				"\t\t\tkept = map[bool]float64{false: 1}[BROKEN] * math.Floor(float64(a.claim)"}),
		left("a booking claims two parts", "the same, of bookings",
			edit{"\tif booking > 0 && a.credit", "\tif !BROKEN && booking > 0 && a.credit"}),
		left("lending", "a lowered limit is used",
			edit{"\t\t\tif t.Falling && ", "\t\t\tif !BROKEN && t.Falling && "}),
		left("appointments", "not all come at one release",
			edit{"\tif float64(a.claim) >= entry.e*milli { //",
				"\tif !BROKEN && float64(a.claim) >= entry.e*milli { //"}),
		left("more sweeps while there is no level", "the first level sooner",
			edit{"\t\tif l.level.heavy == 0 {\n\t\t\toften", "\t\tif l.level.heavy == 0 && !BROKEN {\n\t\t\toften"}),
		left("names that came once are kept", "tenants that come once a window",
			edit{"len(l.accounts) > roomy &&", "(BROKEN || len(l.accounts) > roomy) &&"}),
		left("no more than a 64th at once", "what is free lies there until one comes",
			edit{"math.Floor(min(deep/2, float64(t.Share)/wantPart))))",
				"math.Floor(min(deep/2, map[bool]float64{true: 1e9}[BROKEN]+float64(t.Share)/wantPart))))"}),
		left("half a bucket at once", "few calls bring much",
			edit{"want := max(1, min(refused, deep), min(unserved,", "want := max(1, min(refused, deep), " +
				"map[bool]float64{false: 1}[BROKEN]*min(unserved,"}),
		left("who got all waits for its appointment", "fewer calls in vain",
			edit{"\t\tif float64(a.claim) < entry.e*milli {\n",
				"\t\tif BROKEN || float64(a.claim) < entry.e*milli {\n"}),
		left("at most a share unpaid", "large bookings are paid before others have their first",
			edit{"\tif credit < needed {\n", "\tif credit < needed && !BROKEN {\n"}),
		left("credit of bookings overflows until due", "halves are a window apart",
			edit{"date = max(a.filled, min(date, t.Now+farAhead*t.Window))\n",
				"date = max(a.filled, min(date, t.Now+farAhead*t.Window))\n\t\tif BROKEN {\n\t\t\tdate = " +
					"a.filled\n\t\t}\n"}),
		left("a price for holding", "reserve and cancel",
			edit{"\tunused := permits - int64(price/micro)\n",
				"\tif BROKEN {\n\t\tprice = 0\n\t}\n\tunused := permits - int64(price/micro)\n"}),
		left("debts stay without a level", "one that books halves",
			edit{"\tif a.credit < 0 {\n\t\ta.fill", "\tif a.credit < 0 && !BROKEN {\n\t\ta.fill"}),
		left("bookings save beyond a bucket", "large bookings are a window apart",
			edit{"math.Floor(max(float64(booking)-e, 0)*micro)",
				"map[bool]float64{false: 1}[BROKEN]*math.Floor(max(float64(booking)-e, 0)*micro)"}),
		left("the root in the depth", "small parts hold more than a seventh",
			edit{"depthPart*e, depthRoot*math.Sqrt(e)", "depthPart*e, map[bool]float64{false: 1}[BROKEN]*depthRoot*" +
				"math.Sqrt(e)"}),
		left("the level at once", "with few accounts it is exact at once",
			edit{"\tif !whole {\n", "\tif !whole || BROKEN {\n"}),
	}
}
