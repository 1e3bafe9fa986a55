package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// File is a file of a configuration.
type File struct {
	Name    string // for errors
	Content []byte
}

// Parse reads a configuration of one or more files. Several may tell of one domain, as
// MERGE_DOMAIN_CONFIG of envoyproxy/ratelimit lets them. The error is an *Error about the first
// thing that cannot be used, ErrInvalid for errors.Is.
func Parse(files []File) (*Config, error) {
	p := &parser{config: &Config{domains: make(map[string]*level)}}
	if len(files) == 0 {
		return nil, &Error{What: "there is no file", Do: "give at least one file with a domain"}
	}
	for _, f := range files {
		p.file = f.Name
		if err := p.read(f.Content); err != nil {
			return nil, err
		}
	}
	return p.config, nil
}

// parser reads the files of one configuration.
type parser struct {
	config *Config
	file   string
}

// bad returns the error about a line; 0: about the whole file.
func (p *parser) bad(line int, do, what string, args ...any) error {
	return &Error{File: p.file, Line: line, What: fmt.Sprintf(what, args...), Do: do}
}

// read takes one file in.
func (p *parser) read(content []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	var f file
	if err := decoder.Decode(&f); errors.Is(err, io.EOF) {
		return p.bad(0, "begin with a domain", "the file is empty")
	} else if err != nil {
		return p.syntax(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return p.bad(0, "give each domain a file of its own", "the file has more than one YAML document")
	}
	domain := f.Domain.value
	if domain == "" {
		return p.bad(0, "give it a domain, which requests name", "the file has no domain")
	}
	top := p.config.domains[domain]
	if top == nil {
		top = &level{}
		p.config.domains[domain] = top
	}
	return p.descriptors(f.Descriptors, top, &place{domain: domain, id: escape(domain)})
}

var (
	lineOf = regexp.MustCompile(`line (\d+): `)
	typeOf = regexp.MustCompile(` in(to| type) \S*rules\.\w+$`)
)

// syntax is an error about what is no YAML, or does not fit where it stands.
func (p *parser) syntax(err error) error {
	e := &Error{File: p.file, Do: "correct the YAML",
		What: "the file is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	if several := (*yaml.TypeError)(nil); errors.As(err, &several) {
		e.What = several.Errors[0]
	}
	if at := lineOf.FindStringSubmatch(e.What); at != nil {
		e.Line, _ = strconv.Atoi(at[1]) // digits
		e.What = strings.Replace(e.What, at[0], "", 1)
	}
	e.What = typeOf.ReplaceAllString(e.What, "")
	return e
}

// place is where in the tree of a domain a descriptor stands.
type place struct {
	domain string
	id     string // of the rule there
	open   bool   // a level above leaves values open
}

// below is the place of a level.
func (at *place) below(l *level) *place {
	next := *at
	next.id += "/" + escape(l.key)
	if l.value != "" {
		next.id += "=" + escape(l.value)
	}
	next.open = at.open || l.varies()
	return &next
}

var escaper = strings.NewReplacer("%", "%25", "/", "%2F", "=", "%3D")

func escape(s string) string { return escaper.Replace(s) }
