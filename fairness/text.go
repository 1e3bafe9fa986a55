package fairness

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The text of a book, as it is kept in Redis: a header and one record for each account, all of fixed width and padded with blanks. 1-based:
//
//	header  1 magic(4)  5 accounts(5)  10 promised(16)  26 spare(16)  42 heavy(11)  and of the sweep:
//	        53 next(5)  58 began(16)  74 light(20)  94 heavy(11)  105 claims(20)  125 weight(11)  136 count(5)
//	        and 141 weights(11)
//	record  1 #  2 id(16)  18 weight(7)  25 seen(16)  41 claim(16)  57 filled(16)  73 credit(20)  93 cell(13)
//	        106 used(13)  119 used before(13)  132 turned(16)  148 turned before(16)  164 due(16)  180 denied(16)
//	        196 waited(10)  206 saved(20)
const (
	magic        = "SLB5"
	headerLength = 151
	recordLength = 225
	headerForm   = magic + "%5d%16d%16d%11d%5d%16d%20d%11d%20d%11d%5d%11d"
	recordForm   = "#%s%7d%16d%16d%16d%20d%13d%13d%13d%16d%16d%16d%16d%10d%20d"
)

// ErrText tells that a text is not that of a book.
var ErrText = errors.New("fairness: not the text of a book")

// Text returns the book as text, "" if it is empty.
func (b *Book) Text() string {
	if len(b.accounts) == 0 {
		return ""
	}
	var text strings.Builder
	s := &b.sweep
	fmt.Fprintf(&text, headerForm, len(b.accounts), b.promised, b.level.spare, b.level.heavy,
		s.next, s.began, int64(s.light), s.heavy, int64(s.claims), s.weight, s.count, b.weights)
	for i := range b.accounts {
		a := &b.accounts[i]
		fmt.Fprintf(&text, recordForm, a.id, a.weight, a.seen, a.claim, a.filled, a.credit, a.cell,
			a.used[0], a.used[1], a.turned[0], a.turned[1], a.due, a.denied, a.waited, a.saved)
	}
	return text.String()
}

// ParseBook reads what [Book.Text] wrote. More text than the header tells of is not looked at. The error is [ErrText].
func ParseBook(text string) (*Book, error) {
	b := &Book{}
	if text == "" {
		return b, nil
	}
	header := fields{text: text, at: len(magic)}
	if !strings.HasPrefix(text, magic) {
		return nil, ErrText
	}
	count := header.number(5)
	b.promised = header.number(16)
	b.level = level{spare: header.number(16), heavy: header.number(11)}
	b.sweep = sweep{
		next: int(header.number(5)), began: header.number(16), light: float64(header.number(20)), heavy: header.number(11),
		claims: float64(header.number(20)), weight: header.number(11), count: int(header.number(5)),
	}
	b.weights = header.number(11)
	if header.bad || count < 1 || count > MaxAccounts+1 || int64(len(text)) < headerLength+count*recordLength || b.level.heavy < 0 {
		return nil, ErrText
	}
	for i := range int(count) {
		f := fields{text: text, at: headerLength + i*recordLength + 1 + IDLength}
		a := account{
			id:     text[f.at-IDLength : f.at],
			weight: f.number(7), seen: f.number(16), claim: f.number(16), filled: f.number(16), credit: f.number(20), cell: f.number(13),
			used: [2]int64{f.number(13), f.number(13)}, turned: [2]int64{f.number(16), f.number(16)}, due: f.number(16), denied: f.number(16), waited: f.number(10), saved: f.number(20),
		}
		if f.bad || a.weight < 1 || a.weight > MaxWeight || a.claim < 0 || a.waited < 0 || a.waited > giga || a.saved < 0 {
			return nil, ErrText
		}
		b.accounts = append(b.accounts, a)
	}
	return b, nil
}

// fields reads numbers of fixed width one after the other.
type fields struct {
	text string
	at   int
	bad  bool
}

func (f *fields) number(width int) int64 {
	if f.at+width > len(f.text) {
		f.bad = true
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimLeft(f.text[f.at:f.at+width], " "), 10, 64)
	f.bad = f.bad || err != nil
	f.at += width
	return n
}

// Standing is a participant's place in the book at some instant.
type Standing struct {
	ID          string  // "" for the account that is shared by those who have none of their own
	Weight      int64   // thousandths
	Used        int64   // permits it took in the last window, about
	Demand      int64   // thousandths of a permit per window that it wanted lately, as far as backed by use
	Entitlement float64 // permits per window it is paced at; 0: nobody is held back
}

// Standings lists all accounts, the shared one first.
func (b *Book) Standings(t Term) []Standing {
	var all []Standing
	for i := range b.accounts {
		a := b.accounts[i]
		a.roll(t)
		s := Standing{ID: a.id, Weight: a.weight, Used: a.used[0] + int64(float64(a.used[1])*float64(t.Window-t.Now%t.Window)/float64(t.Window)), Demand: int64(a.demand(t))}
		if i == 0 {
			s.ID = ""
		}
		if b.level.heavy > 0 {
			s.Entitlement = b.entitlement(t, &a)
		}
		all = append(all, s)
	}
	return all
}
