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

// fraction is the first number in a document that is not whole, which a decoder would cut; nil if
// there is none.
func fraction(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!float" {
		return n
	}
	for _, inner := range n.Content {
		if found := fraction(inner); found != nil {
			return found
		}
	}
	return nil
}

// readYAML reads one document, whose mappings have no other fields than those of into, and whose
// numbers are whole; into a node it reads any.
func readYAML(content []byte, into any) error {
	var document yaml.Node
	if _, asIs := into.(*yaml.Node); !asIs && yaml.Unmarshal(content, &document) == nil { // else it is told below
		if n := fraction(&document); n != nil {
			return invalid("line %d: %s is not a whole number", n.Line, n.Value)
		}
	}
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
