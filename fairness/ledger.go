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

// Standing is a participant's place in the ledger at some instant.
type Standing struct {
	ID          string  // "" for the account that is shared by those who have none of their own
	Weight      int64   // thousandths
	Used        int64   // about how many permits it took in the last half window
	Demand      int64   // thousandths of a permit a window that it wanted lately, as far as backed by use
	Entitlement float64 // permits a window at which it is paced; 0: it is not held back, or wanted nothing
}

// Standings reads the hash that a shard keeps of its participants, now and with its window in
// microseconds. It lists all accounts: the shared one first, the others in the order of their IDs.
// The error is [ErrText].
//
// The scripts keep an account of each participant, which paces it by a bucket of credit. The log of
// the shard decides how much may be granted at all: a ledger that is wrong harms fairness only.
func Standings(fields map[string]string, now, window int64) ([]Standing, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	text, ours := strings.CutPrefix(fields[header], columns.LedgerKind)
	var n [10]int64
	if !ours || len(fields[header]) != columns.Ledger.Bytes() || !columns.Ledger.Numbers(text, n[:]) ||
		slices.Min(n[:]) < 0 || n[0] > MaxAccounts || n[0] != int64(len(fields)-2) || fields[shared] == "" {
		return nil, ErrText
	}
	all := make([]Standing, 0, len(fields)-1)
	for _, id := range slices.Sorted(maps.Keys(fields)) { // '*' is before all digits
		if id == header {
			continue
		}
		text := fields[id]
		if len(id) != IDLength || len(text) != columns.Account.Bytes() || !columns.Account.Numbers(text, n[:]) ||
			n[0] < 1 || n[0] > MaxWeight || n[3] > milli || max(n[5], n[6]) > 1 {
			return nil, ErrText
		}
		stated, claim, rate, longer, used := n[1], n[2], n[4], n[6], float64(n[8])
		s := Standing{ID: strings.TrimPrefix(id, shared), Weight: n[0], Used: int64(math.Round(
			used * float64(window) / float64(window+2*max(now-stated, 0)) / milli / 2))}
		if half, last := now*2/window, stated*2/window+longer; last >= half-1 && last <= half+1 {
			s.Demand, s.Entitlement = claim, float64(rate)/milli
		}
		all = append(all, s)
	}
	return all, nil
}
