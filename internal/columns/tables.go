package columns

// tables are those that scripts know by name.
var tables = []*Table{
	&Packed, &Once, &Log, &Entry, &LeakyBucket, &TokenBucket, &Low, &Booking,
	&Ledger, &Account, &Terms, &Asks, &Group, &Caller, &Calm,
}

// The columns that a shard keeps behind the proposal in force: Packed are those of all algorithms,
// the others follow it.
var (
	Packed = Table{Name: "packed", Columns: []Column{
		{Name: "start", Width: 13}, {Name: "touched", Width: 16}, {Name: "own"},
	}}
	// Once is a log with a single entry, which a calm take made.
	Once = Table{Name: "once", Columns: []Column{{Name: "touched", Width: 16}, {Name: "total"}}}
	// Log: how many entries are alive; the newest; since when grants are known; the total before
	// the first entry that is alive, and how many are in front of it that are not; the date of the
	// oldest that is alive. The entries follow, but for the newest. What every grant changes stands
	// first.
	Log = Table{Name: "log", Before: own, Columns: []Column{
		{Name: "count", Width: 4}, {Name: "newest", Width: 16}, {Name: "total", Width: 15},
		{Name: "since", Width: 16}, {Name: "before", Width: 15}, {Name: "dead", Width: 4}, {Name: "oldest", Width: 16},
		{Name: "entries"},
	}}
	// Entry: what was granted under one date, by the total with it.
	Entry       = Table{Name: "entry", Columns: []Column{{Name: "date", Width: 16}, {Name: "total", Width: 15}}}
	LeakyBucket = Table{Name: "leaky", Before: own,
		Columns: []Column{{Name: "date", Width: 16}, {Name: "part", Width: 13}}}
	// TokenBucket: the bookings follow it.
	TokenBucket = Table{Name: "tokens", Before: own, Columns: []Column{
		{Name: "date", Width: 16}, {Name: "part", Width: 13}, {Name: "since", Width: 16},
		{Name: "lows", Width: 9 * 13, Text: true}, {Name: "bookings"},
	}}
	Low     = Table{Name: "low", Columns: []Column{{Name: "permits", Width: 13}}}
	Booking = Table{Name: "booking", Columns: []Column{{Name: "date", Width: 16}, {Name: "permits", Width: 13}}}
)

// own is where the algorithms' own columns begin in a packed shard.
const own = 29

// What is kept of participants that contend: a header, and an account of each.
var (
	// Ledger: what the accounts add to the level whose claims are of the half window before, of
	// that one and of the next.
	Ledger = Table{Name: "ledger", Columns: []Column{
		{Name: "kind", Fixed: "SLB8"}, {Name: "count", Width: 5}, {Name: "half", Width: 13},
		{Name: "light_before", Width: 20}, {Name: "heavy_before", Width: 11}, {Name: "light", Width: 20},
		{Name: "heavy", Width: 11}, {Name: "light_next", Width: 20}, {Name: "heavy_next", Width: 11},
	}}
	// Account: what follows the rate changes between statements of its claim.
	Account = Table{Name: "account", Columns: []Column{
		{Name: "weight", Width: 7}, {Name: "stated", Width: 16}, {Name: "claim", Width: 16},
		{Name: "waited", Width: 4}, {Name: "rate", Width: 17}, {Name: "heavy", Width: 1}, {Name: "longer", Width: 1},
		{Name: "unmet", Width: 16}, {Name: "used", Width: 16}, {Name: "empty", Width: 16},
	}}
)

// What scripts are given.
var (
	Terms = Table{Name: "terms", Columns: []Column{
		{Name: "flags", Width: 1}, {Name: "known", Width: 16}, {Name: "deadline", Width: 16}, {Name: "held", Width: 13},
		{Name: "fence", Width: 16}, {Name: "life", Width: 13}, {Name: "head_life"},
	}}
	// Asks: the groups follow, and the callers follow them.
	Asks = Table{Name: "asks",
		Columns: []Column{{Name: "groups", Width: 3}, {Name: "reports", Width: 1}, {Name: "rest"}}}
	Group = Table{Name: "group",
		Columns: []Column{{Name: "size", Width: 13}, {Name: "count", Width: 13}, {Name: "caller", Width: 3}}}
	// Caller: unmet and waiting are there only with reports.
	Caller = Table{Name: "caller", Columns: []Column{
		{Name: "id", Width: 16, Text: true}, {Name: "weight", Width: 7},
		{Name: "unmet", Width: 16}, {Name: "waiting", Width: 16},
	}}
	// Calm is what take.lua is told.
	Calm = Table{Name: "calm", Columns: []Column{
		{Name: "share", Width: 13}, {Name: "window", Width: 16}, {Name: "cell", Width: 16}, {Name: "exact", Width: 3},
		{Name: "n", Width: 14}, {Name: "fence", Width: 16}, {Name: "until", Width: 16}, {Name: "need", Width: 16},
		{Name: "state"},
	}}
)
