package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	"gopkg.in/yaml.v3"
)

// ErrInvalidFile: a file of limits or settings says something that cannot be. The text is one line:
// file:line: what is wrong.
var ErrInvalidFile = errors.New("invalid file")

// fileError is ErrInvalidFile without saying so: the flag that names the file is told before it.
type fileError struct{ error }

func (fileError) Is(target error) bool { return target == ErrInvalidFile }

func (e fileError) Unwrap() error { return e.error }

// file is where errors are, a path.
type file string

func (f file) invalid(at *yaml.Node, format string, a ...any) error {
	return fileError{fmt.Errorf("%s:%d: %w", f, at.Line, fmt.Errorf(format, a...))}
}

// toLine is how errors of the parser begin, up to the line if they tell of one.
var toLine = regexp.MustCompile(`^yaml: line |^yaml:`)

// escaped are escapes of JSON: pairs of surrogates, and any others.
var escaped = regexp.MustCompile(`\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\.`)

// plain returns what an escape stands for if the parser of YAML does not know it.
func plain(escape []byte) []byte {
	var text string
	if len(escape) == 2 && escape[1] != '/' || json.Unmarshal(fmt.Appendf(nil, `"%s"`, escape), &text) != nil {
		return escape
	}
	return []byte(text)
}

// read reads a document of YAML, and so of JSON.
func (f file) read(content []byte) (*yaml.Node, error) {
	if json.Valid(content) {
		content = escaped.ReplaceAllFunc(content, plain)
	}
	var document, more yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	err := decoder.Decode(&document)
	if err == nil {
		if err = decoder.Decode(&more); err == nil {
			return nil, f.invalid(&more, "there is more after the end")
		}
	}
	switch {
	case len(document.Content) == 0 && errors.Is(err, io.EOF):
		return nil, fileError{fmt.Errorf("%s: it is empty", f)}
	case errors.Is(err, io.EOF):
		return document.Content[0], nil
	}
	return nil, fileError{fmt.Errorf("%s:%s", f, toLine.ReplaceAllString(err.Error(), ""))}
}

// each calls do for every field of a mapping. None may be there twice.
func (f file) each(mapping *yaml.Node, do func(name, value *yaml.Node) error) error {
	seen := map[string]bool{}
	for i := 0; i < len(mapping.Content); i += 2 {
		name := mapping.Content[i]
		if seen[name.Value] {
			return f.invalid(name, "%s is there twice", name.Value)
		}
		seen[name.Value] = true
		if err := do(name, mapping.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}
