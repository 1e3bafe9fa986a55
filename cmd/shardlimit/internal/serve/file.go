package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// ErrInvalidFile: a file of limits or settings says something that cannot be. The text is one line,
// which says where and what.
var ErrInvalidFile = errors.New("invalid file")

// fileError is ErrInvalidFile without saying so: the flag that names the file is told before it.
type fileError struct{ error }

func (fileError) Is(target error) bool { return target == ErrInvalidFile }

func (e fileError) Unwrap() error { return e.error }

func invalid(format string, a ...any) error { return fileError{fmt.Errorf(format, a...)} }

// errMore is that a file has a second document.
var errMore = invalid("there is more after the end")

// readJSON reads one value, whose objects have no other fields than those of into.
func readJSON(content []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fileError{err}
	}
	if decoder.More() {
		return errMore
	}
	return nil
}

// ofGo is what errors say of types of Go, which tells readers nothing.
var ofGo = regexp.MustCompile(`(!!\w+ )|( (in type|into) .*)`)

// readYAML reads one document, whose mappings have no other fields than those of into.
func readYAML(content []byte, into any) error {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	err := decoder.Decode(into)
	if several := (*yaml.TypeError)(nil); errors.As(err, &several) {
		return invalid("%s", ofGo.ReplaceAllString(several.Errors[0], ""))
	}
	switch {
	case errors.Is(err, io.EOF):
		return invalid("it is empty")
	case err != nil:
		return invalid("%s", strings.TrimPrefix(err.Error(), "yaml: "))
	case !errors.Is(decoder.Decode(new(yaml.Node)), io.EOF):
		return errMore
	}
	return nil
}
