package fairness

import (
	"errors"
	"fmt"
	"strings"

	"github.com/shardlimit/shardlimit/internal/columns"
)

// The text of a ledger, as it is kept in Redis, is a header (columns.Ledger) and behind it one
// record for each account (columns.Account).

// ErrText tells that a text is not that of a ledger.
var ErrText = errors.New("fairness: not the text of a ledger")

// Text returns the ledger as text, "" if it is empty.
func (l *Ledger) Text() string {
	if len(l.accounts) == 0 {
		return ""
	}
	var text strings.Builder
	s := &l.sweep
	fmt.Fprintf(&text, columns.Ledger.Form(), len(l.accounts), l.appointed, l.level.spare, l.level.heavy,
		s.next, s.began, int64(s.light), s.heavy, int64(s.claims), s.weight, s.count, l.weights)
	for i := range l.accounts {
		a := &l.accounts[i]
		fmt.Fprintf(&text, columns.Account.Form(), a.id, a.weight, a.seen, a.claim, a.filled, a.credit, a.cell,
			a.used[0], a.used[1], a.unmet[0], a.unmet[1], a.due, a.denied, a.waited, a.lent)
	}
	return text.String()
}

// ParseLedger reads what [Ledger.Text] wrote. More text than the header tells of is not looked at.
// The error is [ErrText].
func ParseLedger(text string) (*Ledger, error) {
	l := &Ledger{}
	if text == "" {
		return l, nil
	}
	if len(text) < columns.Ledger.Bytes() {
		return nil, ErrText
	}
	header := columns.Ledger.Reader(text)
	count := header.Number()
	l.appointed = header.Number()
	l.level = level{spare: header.Number(), heavy: header.Number()}
	l.sweep = sweep{
		next: int(header.Number()), began: header.Number(), light: float64(header.Number()), heavy: header.Number(),
		claims: float64(header.Number()), weight: header.Number(), count: int(header.Number()),
	}
	l.weights = header.Number()
	if header.Bad() || count < 1 || count > MaxAccounts+1 || l.level.heavy < 0 ||
		int64(len(text)) < int64(columns.Ledger.Bytes())+count*int64(columns.Account.Bytes()) {
		return nil, ErrText
	}
	for i := range int(count) {
		r := columns.Account.Reader(text[columns.Ledger.Bytes()+i*columns.Account.Bytes():])
		a := account{
			id: r.Text(), weight: r.Number(), seen: r.Number(), claim: r.Number(), filled: r.Number(),
			credit: r.Number(),
			cell:   r.Number(), used: [2]int64{r.Number(), r.Number()}, unmet: [2]int64{r.Number(), r.Number()},
			due: r.Number(), denied: r.Number(), waited: r.Number(), lent: r.Number(),
		}
		if r.Bad() || a.weight < 1 || a.weight > MaxWeight || a.claim < 0 || a.waited < 0 || a.waited > giga ||
			a.lent < 0 {
			return nil, ErrText
		}
		l.accounts = append(l.accounts, a)
	}
	return l, nil
}

// Standing is a participant's place in the ledger at some instant.
type Standing struct {
	ID          string  // "" for the account that is shared by those who have none of their own
	Weight      int64   // thousandths
	Used        int64   // permits it took in the last window, about
	Demand      int64   // thousandths of a permit per window that it wanted lately, as far as backed by use
	Entitlement float64 // permits per window it is paced at; 0: nobody is held back
}

// Standings lists all accounts, the shared one first.
func (l *Ledger) Standings(t Term) []Standing {
	var all []Standing
	for i := range l.accounts {
		a := l.accounts[i]
		a.roll(t)
		s := Standing{ID: a.id, Weight: a.weight,
			Used:   a.used[0] + int64(float64(a.used[1])*float64(t.Window-t.Now%t.Window)/float64(t.Window)),
			Demand: int64(a.demand(t))}
		if i == 0 {
			s.ID = ""
		}
		if l.level.heavy > 0 {
			s.Entitlement = l.entitlement(t, &a)
		}
		all = append(all, s)
	}
	return all
}
