package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// kind is what a record is.
type kind byte

const (
	none  kind = 0   // nobody has written it
	live  kind = 'v' // it has a value
	gone  kind = 'd' // it was deleted
	moved kind = 'm' // it is kept at other places since
)

// stored is what a majority keeps of a record: its kind as a letter, and a text.
type stored struct {
	kind kind
	text string
	to   *Places // of one that was moved
}

// ErrUnreadable tells that what is stored is nothing that this version could have stored.
var ErrUnreadable = errors.New("what is stored cannot be read by this version")

// move is the text of a record that was moved.
type move struct {
	To  *Places `json:"to"`
	Was string  `json:"was"`
}

func parse(text string, exists bool) (s stored, err error) {
	if !exists {
		return s, nil
	}
	if text == "" || !strings.Contains("vdm", text[:1]) {
		return s, fmt.Errorf("%w: %.20q", ErrUnreadable, text)
	}
	s = stored{kind: kind(text[0]), text: text[1:]}
	if s.kind == moved {
		var m move
		if err := json.Unmarshal([]byte(s.text), &m); err != nil || m.To == nil {
			return s, fmt.Errorf("%w: where it was moved", ErrUnreadable)
		}
		if err := m.To.validate(); err != nil {
			return s, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		if _, err := parse(m.Was, m.Was != ""); err != nil || strings.HasPrefix(m.Was, string(rune(moved))) {
			return s, fmt.Errorf("%w: what was moved", ErrUnreadable)
		}
		s.to, s.text = m.To, m.Was
	}
	return s, nil
}

func (s stored) encode() (string, error) {
	if s.kind != moved {
		return string(rune(s.kind)) + s.text, nil
	}
	text, err := json.Marshal(move{s.to, s.text})
	return string(rune(moved)) + string(text), err
}

// moveTo is what stays behind of a record that moves.
func (s stored) moveTo(to *Places) stored {
	text := ""
	if s.kind != none {
		text, _ = s.encode()
	}
	return stored{kind: moved, text: text, to: to}
}

// was is the record that was moved.
func (s stored) was() stored {
	old, _ := parse(s.text, s.text != "")
	return old
}

func (s stored) same(other stored) bool { return s.kind == other.kind && s.text == other.text }

func (s stored) reading(held, known time.Duration, of Reading) Reading {
	of.Exists, of.Deleted, of.Held, of.Known = s.kind == live, s.kind == gone, held, known
	if of.Exists {
		of.Value = s.text
	}
	return of
}
