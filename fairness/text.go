package fairness

import (
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/shardlimit/shardlimit/internal/columns"
)

// A ledger is kept in Redis as a hash: its header (columns.Ledger) under this field, and each
// account (columns.Account) under the id of its participant.
const header = "ledger"

// ErrText tells that a hash is not that of a ledger.
var ErrText = errors.New("fairness: not a ledger")

// Fields returns the ledger as the hash that Redis keeps, nil if it is empty.
func (l *Ledger) Fields() map[string]string {
	if l.accounts == nil {
		return nil
	}
	n := &l.sums
	fields := map[string]string{header: columns.Ledger.Sprint(l.count, l.half, int64(n[0].light), int64(n[0].heavy),
		int64(n[1].light), int64(n[1].heavy), int64(n[2].light), int64(n[2].heavy))}
	for id, a := range l.accounts {
		fields[id] = columns.Account.Sprint(a.weight, a.stated, a.claim, a.waited, a.rate, a.heavy, a.longer,
			a.unmet, a.used, a.empty)
	}
	return fields
}

// ParseLedger reads what [Ledger.Fields] wrote. The error is [ErrText].
func ParseLedger(fields map[string]string) (*Ledger, error) {
	if len(fields) == 0 {
		return &Ledger{}, nil
	}
	if len(fields) > MaxAccounts+2 {
		return nil, ErrText
	}
	l, text := &Ledger{accounts: make(map[string]*account)}, fields[header]
	if len(text) != columns.Ledger.Bytes() {
		return nil, ErrText
	}
	r := columns.Ledger.Reader(text)
	l.count, l.half = r.Number(), r.Number()
	for i := range l.sums {
		l.sums[i] = sum{light: float64(r.Number()), heavy: float64(r.Number())}
	}
	bad := r.Bad()
	for id, text := range fields {
		if id == header {
			continue
		}
		r := columns.Account.Reader(text)
		a := account{weight: r.Number(), stated: r.Number(), claim: r.Number(), waited: r.Number(), rate: r.Number(),
			heavy: r.Number(), longer: r.Number(), unmet: r.Number(), used: r.Number(), empty: r.Number()}
		bad = bad || r.Bad() || len(id) != IDLength || a.weight < 1 || a.weight > MaxWeight || a.claim < 0
		l.accounts[id] = &a
	}
	if bad || l.accounts[shared] == nil || l.count != int64(len(fields)-2) {
		return nil, ErrText
	}
	return l, nil
}

// Standing is a participant's place in the ledger at some instant.
type Standing struct {
	ID          string  // "" for the account that is shared by those who have none of their own
	Weight      int64   // thousandths
	Used        int64   // about how many permits it took in the last half window
	Demand      int64   // thousandths of a permit a window that it wanted lately, as far as backed by use
	Entitlement float64 // permits a window at which it is paced; 0: nobody is held back
}

// Standings lists all accounts, the shared one first, the others in the order of their IDs.
func (l *Ledger) Standings(t Term) []Standing {
	if l.accounts == nil {
		return nil
	}
	now := l.Clone()
	now.begin(t, "")
	var all []Standing
	for _, id := range slices.Sorted(maps.Keys(now.accounts)) {
		a := now.accounts[id]
		s := Standing{ID: id, Weight: a.weight, Entitlement: float64(now.rate(t, a)) / milli,
			Used: int64(math.Round(
				float64(a.used) * float64(t.Window) / float64(t.Window+2*max(t.Now-a.stated, 0)) / milli / 2))}
		if half := a.stated*2/t.Window + a.longer; half >= now.half-1 && half <= now.half+1 {
			s.Demand = a.claim
		}
		if id == shared { // '*' is before all digits
			s.ID = ""
		}
		all = append(all, s)
	}
	return all
}
