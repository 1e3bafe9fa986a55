package history

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Write writes an operation as a line of text: start, end and permits in decimal with a blank
// between. What several processes of one machine have written may be concatenated.
func Write(w io.Writer, op Op) error {
	_, err := fmt.Fprintln(w, op.Start, op.End, op.Permits)
	return err
}

// Read reads what Write wrote. A last line without its newline is left out: its writer was killed
// at it, and its number may be cut short.
func Read(text string) (ops []Op, err error) {
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var op Op
		_, err := fmt.Sscanf(line, "%d %d %d\n", &op.Start, &op.End, &op.Permits)
		if err := errors.Join(err, op.check()); err != nil {
			return nil, fmt.Errorf("history: line %d, %q: %w", len(ops)+1, line, err)
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// ReadFiles reads the files of several processes of one machine into one history.
func ReadFiles(names ...string) (all []Op, err error) {
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		ops, err := Read(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, ops...)
	}
	return all, nil
}
