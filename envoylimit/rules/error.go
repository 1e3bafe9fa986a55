package rules

import (
	"errors"
	"fmt"
)

// ErrInvalid is what every Error is, for errors.Is.
var ErrInvalid = errors.New("rules: invalid configuration")

// Error says what of a configuration cannot be used, where it stands and what to do.
type Error struct {
	File string // as it was named to Parse; "" if it is about no file
	Line int    // counted from 1; 0 if it is about the whole file
	What string // what is wrong
	Do   string // what to do about it
}

// Error is "FILE:LINE: what is wrong; what to do".
func (e *Error) Error() string {
	switch {
	case e.File == "":
		return fmt.Sprintf("%s; %s", e.What, e.Do)
	case e.Line == 0:
		return fmt.Sprintf("%s: %s; %s", e.File, e.What, e.Do)
	}
	return fmt.Sprintf("%s:%d: %s; %s", e.File, e.Line, e.What, e.Do)
}

// Unwrap returns ErrInvalid.
func (e *Error) Unwrap() error { return ErrInvalid }
