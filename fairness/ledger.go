package fairness

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/shardlimit/shardlimit/internal/columns"
)

const (
	// header is the field of a ledger, in Redis a hash, that is no account (columns.Ledger). Each
	// account (columns.Account) is under the id of its participant.
	header = "ledger"
	// shared is the id of the account of those who have none of their own: names seen for the first
	// time, and names beyond [MaxAccounts].
	shared = "****************"
)

// ErrText tells that a hash is not that of a ledger.
var ErrText = errors.New("fairness: not a ledger")

// ledger is what a shard knows of the participants that contend for it. The scripts keep it: each
// account paces its participant by a bucket of credit, which fills at weight × level. The log of
// the shard decides how much may be granted at all: a ledger that is wrong harms fairness only.
type ledger struct {
	accounts map[string]account
	count    int64       // accounts, without the shared one
	half     int64       // the half window of the last statement, counted from 0
	sums     [3]struct { // of the half window before, of that one and of the next
		light float64 // what those want who want less than their part, thousandths of a permit a window
		heavy float64 // weight of all others, thousandths
	}
}

// account is what is known of one participant, in thousandths.
type account struct {
	weight int64
	stated int64 // when its claim was last stated, us
	claim  int64 // what it wants a window, as far as backed by use
	heavy  bool  // it wants its part or more
	longer int64 // 1: its claim counts half a window longer
	used   int64 // a window
}

func parse(fields map[string]string) (*ledger, error) {
	text, ours := strings.CutPrefix(fields[header], columns.LedgerKind)
	var n [10]int64
	if !ours || len(fields[header]) != columns.Ledger.Bytes() || !columns.Ledger.Numbers(text, n[:]) ||
		slices.Min(n[:]) < 0 || len(fields) > MaxAccounts+2 {
		return nil, ErrText
	}
	l := &ledger{accounts: make(map[string]account), count: n[0], half: n[1]}
	for i := range l.sums {
		l.sums[i].light, l.sums[i].heavy = float64(n[4+2*i]), float64(n[5+2*i])
	}
	for id, text := range fields {
		if id == header {
			continue
		}
		var n [10]int64
		if len(id) != IDLength || len(text) != columns.Account.Bytes() || !columns.Account.Numbers(text, n[:]) ||
			n[0] < 1 || n[0] > MaxWeight || n[3] > milli || max(n[5], n[6]) > 1 {
			return nil, ErrText
		}
		l.accounts[id] = account{weight: n[0], stated: n[1], claim: n[2], heavy: n[5] > 0, longer: n[6], used: n[8]}
	}
	if _, ok := l.accounts[shared]; !ok || l.count != int64(len(fields)-2) {
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

// Standings reads the hash that a shard keeps of its participants, and lists all accounts: the
// shared one first, the others in the order of their IDs. The error is [ErrText].
func Standings(fields map[string]string, t Term) ([]Standing, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	l, err := parse(fields)
	if err != nil {
		return nil, err
	}
	now := t.Now * 2 / t.Window
	if l.count >= MaxAccounts && now != l.half { // who was silent for a window gives way
		maps.DeleteFunc(l.accounts, func(id string, a account) bool {
			return id != shared && t.Now-a.stated > t.Window
		})
		l.count = int64(len(l.accounts)) - 1
	}
	all := make([]Standing, 0, len(l.accounts))
	for _, id := range slices.Sorted(maps.Keys(l.accounts)) {
		a := l.accounts[id]
		s := Standing{ID: id, Weight: a.weight, Entitlement: l.rate(t, &a),
			Used: int64(math.Round(
				float64(a.used) * float64(t.Window) / float64(t.Window+2*max(t.Now-a.stated, 0)) / milli / 2))}
		if half := a.stated*2/t.Window + a.longer; half >= now-1 && half <= now+1 {
			s.Demand = a.claim
		}
		if id == shared { // '*' is before all digits
			s.ID = ""
		}
		all = append(all, s)
	}
	return all, nil
}

// rate returns at how many permits a window an account is paced, 0: it need not be held back. It is
// weight × level, and the level is (share − what the light want) / (weight of the heavy). With any
// division into light and heavy that is no higher than the true one, and whoever wants its part or
// more finds that out when it next states its claim. So it climbs to the true level: Newton's
// iteration, one participant at a time.
func (l *ledger) rate(t Term, a *account) float64 {
	var light, heavy float64
	if passed := t.Now*2/t.Window - l.half; passed >= 0 && passed < int64(len(l.sums)) { // else long ago
		for _, s := range l.sums[passed:] {
			light, heavy = light+s.light, heavy+s.heavy
		}
	}
	weight, all := float64(a.weight), float64(t.Share)*milli
	spare := all - light
	if l.count < 2 || heavy == 0 && spare >= 0 || light == 0 && a.heavy && heavy <= weight {
		return 0
	}
	if heavy == 0 || spare <= 0 { // they stated their claims before there was a level
		spare, heavy = all, float64(l.count)*milli
	}
	return max(1, math.Floor(min(weight*spare/heavy, all))) / milli
}
