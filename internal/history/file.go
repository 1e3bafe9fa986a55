package history

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// maxLine is more than the longest possible line has.
const maxLine = 128

// Write writes operations as text, one a line: start, end and permits in
// decimal with a blank between. What several processes of one machine have
// written may be concatenated.
func Write(w io.Writer, ops []Op) error {
	out := bufio.NewWriter(w)
	var line []byte
	for _, op := range ops {
		line = strconv.AppendInt(line[:0], op.Start, 10)
		line = append(line, ' ')
		line = strconv.AppendInt(line, op.End, 10)
		line = append(line, ' ')
		line = strconv.AppendInt(line, op.Permits, 10)
		line = append(line, '\n')
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("history: write: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("history: write: %w", err)
	}
	return nil
}

// Read reads what Write wrote. A last line without its newline is left out: its
// writer was killed at it, and its number may be cut short.
func Read(r io.Reader) ([]Op, error) {
	in := bufio.NewReader(r)
	var ops []Op
	for number := 1; ; number++ {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) <= maxLine:
			return ops, nil
		case errors.Is(err, bufio.ErrBufferFull) || len(line) > maxLine:
			return nil, fmt.Errorf("history: line %d is too long", number)
		case err != nil:
			return nil, fmt.Errorf("history: read: %w", err)
		}
		op, err := parse(line[:len(line)-1])
		if err != nil {
			return nil, fmt.Errorf("history: line %d: %w", number, err)
		}
		ops = append(ops, op)
	}
}

func parse(line []byte) (Op, error) {
	fields := bytes.Split(line, []byte{' '})
	if len(fields) != 3 {
		return Op{}, fmt.Errorf("%q has %d fields, want 3", line, len(fields))
	}
	var numbers [3]int64
	for i, f := range fields {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return Op{}, err
		}
		numbers[i] = n
	}
	op := Op{Start: numbers[0], End: numbers[1], Permits: numbers[2]}
	return op, op.check()
}

// WriteFile writes operations to a new file, or in place of an old one.
func WriteFile(name string, ops []Op) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return errors.Join(Write(f, ops), f.Close())
}

// ReadFiles reads the files of several processes of one machine into one history.
func ReadFiles(names ...string) ([]Op, error) {
	var all []Op
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		ops, err := Read(f)
		_ = f.Close() // it was only read
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, ops...)
	}
	return all, nil
}
