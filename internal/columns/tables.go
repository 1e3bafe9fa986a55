package columns

// tables are those that scripts know by name.
var tables = []*Table{
	&Packed, &Once, &Log, &Entry, &LeakyBucket, &TokenBucket, &Low, &Booking,
	&Ledger, &Account, &Terms, &Asks, &Group, &Caller, &Calm, &Told, &Paced,
}

// The columns that a shard keeps behind the proposal in force: Packed are those of all algorithms,
// the others follow it.
var (
	// Packed: returned is when permits last came back early, 0: never.
	Packed = Table{Name: "packed", Columns: []Column{
		{Name: "start", Width: 6}, {Name: "returned", Width: 7}, {Name: "touched", Width: 7}, {Name: "own"}}}
	// Once is a log with a single entry, which a calm take made.
	Once = Table{Name: "once", Columns: []Column{{Name: "touched", Width: 7}, {Name: "total", Width: 7}}}
	// Log: how many entries are alive; the newest; since when grants are known; the total before
	// the first entry that is alive, and how many are in front of it that are not; the date of the
	// oldest that is alive. The entries follow, but for the newest. What every grant changes stands
	// first.
	Log = Table{Name: "log", Before: own, Columns: []Column{
		{Name: "count", Width: 2}, {Name: "newest", Width: 7}, {Name: "total", Width: 7},
		{Name: "since", Width: 7}, {Name: "before", Width: 7}, {Name: "dead", Width: 2}, {Name: "oldest", Width: 7},
		{Name: "entries"},
	}}
	// Entry: what was granted under one date, by the total with it.
	Entry = Table{Name: "entry",
		Columns: []Column{{Name: "date", Width: 7}, {Name: "total", Width: 7}}}
	LeakyBucket = Table{Name: "leaky", Before: own,
		Columns: []Column{{Name: "date", Width: 7}, {Name: "part", Width: 6}}}
	// TokenBucket: the bookings follow it.
	TokenBucket = Table{Name: "tokens", Before: own, Columns: []Column{
		{Name: "date", Width: 7}, {Name: "part", Width: 6}, {Name: "since", Width: 7},
		{Name: "lows", Width: 9 * 6, Text: true}, {Name: "bookings"},
	}}
	Low     = Table{Name: "low", Columns: []Column{{Name: "permits", Width: 6}}}
	Booking = Table{Name: "booking", Columns: []Column{{Name: "date", Width: 7}, {Name: "permits", Width: 6}}}
)

// own is where the algorithms' own columns begin in a packed shard.
const own = 20

// LedgerKind is how the header of a ledger begins.
const LedgerKind = "SLC1"

// What is kept of participants that contend: a header, and an account of each.
var (
	// Ledger: when it was opened; what is owed to who wants single permits; and what the accounts
	// add to the level whose claims are of the half window before, of that one and of the next. Its
	// kind stands in front. It has more than 64 bytes: else a server keeps all as a list, and looks
	// through that.
	Ledger = Table{Name: "ledger", Before: len(LedgerKind), Columns: []Column{
		{Name: "count", Width: 8}, {Name: "half", Width: 8}, {Name: "opened", Width: 8}, {Name: "owed", Width: 8},
		{Name: "light_before", Width: 8}, {Name: "heavy_before", Width: 8}, {Name: "light", Width: 8},
		{Name: "heavy", Width: 8}, {Name: "light_next", Width: 8}, {Name: "heavy_next", Width: 8},
	}}
	// Account: what follows the rate changes between statements of its claim.
	Account = Table{Name: "account", Columns: []Column{
		{Name: "weight", Width: 4}, {Name: "stated", Width: 7}, {Name: "claim", Width: 7},
		{Name: "waited", Width: 2}, {Name: "rate", Width: 7}, {Name: "heavy", Width: 1}, {Name: "longer", Width: 1},
		{Name: "unmet", Width: 7}, {Name: "used", Width: 7}, {Name: "empty", Width: 7},
	}}
)

// What scripts are given.
var (
	// Terms: held is one more than what an older state can hold at the most; 0: anything.
	Terms = Table{Name: "terms", Columns: []Column{
		{Name: "seen", Width: 1}, {Name: "lasts", Width: 7}, {Name: "known", Width: 7}, {Name: "until", Width: 7},
		{Name: "held", Width: 6}, {Name: "fence", Width: 7}, {Name: "life", Width: 6},
	}}
	// Asks: the groups follow, and the callers follow them.
	Asks = Table{Name: "asks",
		Columns: []Column{{Name: "groups", Width: 1}, {Name: "reports", Width: 1}, {Name: "rest"}}}
	Group = Table{Name: "group",
		Columns: []Column{{Name: "size", Width: 6}, {Name: "count", Width: 6}, {Name: "caller", Width: 2}}}
	// Caller: unmet and waiting are there only with reports.
	Caller = Table{Name: "caller", Columns: []Column{
		{Name: "id", Width: 16, Text: true}, {Name: "weight", Width: 4},
		{Name: "unmet", Width: 7}, {Name: "waiting", Width: 7},
	}}
	// Calm is what take.lua is told.
	Calm = Table{Name: "calm", Columns: []Column{
		{Name: "share", Width: 6}, {Name: "window", Width: 7}, {Name: "cell", Width: 7}, {Name: "exact", Width: 2},
		{Name: "n", Width: 6}, {Name: "part", Width: 1}, {Name: "fence", Width: 7}, {Name: "until", Width: 7},
		{Name: "need", Width: 7}, {Name: "state"},
	}}
	// Told is what take.lua tells of a state that there was.
	Told = Table{Name: "told",
		Columns: []Column{{Name: "free", Width: 6}, {Name: "next", Width: 6}, {Name: "reset", Width: 6},
			{Name: "early", Width: 1}}}
	// Paced is one number of those that the paced take tells behind that.
	Paced = Table{Name: "paced", Columns: []Column{{Name: "number", Width: 6}}}
)
