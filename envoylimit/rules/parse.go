package rules

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Bounds of a configuration, so that a small file with aliases cannot become a huge one.
const (
	MaxDepth       = 32      // descriptors within each other
	MaxDescriptors = 1 << 18 // in all files together
)

// File is a file of a configuration.
type File struct {
	Name    string // for errors
	Content []byte
}

// Options are what a configuration does not say itself. The zero value is what envoyproxy/ratelimit
// does by default.
type Options struct {
	// MergeDomains lets several files tell of one domain, as MERGE_DOMAIN_CONFIG does there.
	MergeDomains bool
}

// Parse reads a configuration of one or more files. The error is an *Error about the first thing
// that cannot be used, ErrInvalid for errors.Is.
func Parse(files []File, o Options) (*Config, error) {
	p := &parser{o: o, config: &Config{domains: make(map[string]*level)}}
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
	o      Options
	config *Config
	file   string
	count  int // descriptors so far
}

func (p *parser) bad(n *yaml.Node, do, what string, args ...any) error {
	e := &Error{File: p.file, What: fmt.Sprintf(what, args...), Do: do}
	if n != nil {
		e.Line = n.Line
	}
	return e
}

var lineOf = regexp.MustCompile(`line (\d+): `)

// read takes one file in.
func (p *parser) read(content []byte) error {
	var document yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(string(content)))
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return p.bad(nil, "begin with a domain", "the file is empty")
	} else if err != nil {
		return p.syntax(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return p.bad(nil, "give each domain a file of its own", "the file has more than one YAML document")
	}
	root := document.Content[0]
	f, err := p.fields(root, "the file", "domain", "descriptors")
	if err != nil {
		return err
	}
	domain, err := p.text(f["domain"])
	if err != nil {
		return err
	}
	if domain == "" {
		return p.bad(root, "give it a domain, which requests name", "the file has no domain")
	}
	top := p.config.domains[domain]
	if top != nil && !p.o.MergeDomains {
		return p.bad(f["domain"], "give each file a domain of its own, or have domains merged",
			"the domain %q is in another file already", domain)
	}
	if top == nil {
		top = &level{}
		p.config.domains[domain] = top
	}
	return p.descriptors(f["descriptors"], top, &place{domain: domain, id: escape(domain)})
}

// syntax is an error about what is no YAML.
func (p *parser) syntax(err error) error {
	e := &Error{File: p.file, Do: "correct the YAML"}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if at := lineOf.FindStringSubmatch(text); at != nil {
		e.Line, _ = strconv.Atoi(at[1]) // digits
		text = strings.Replace(text, at[0], "", 1)
	}
	e.What = "the file is not YAML: " + text
	return e
}

// place is where in the tree of a domain a descriptor stands.
type place struct {
	domain string
	id     string // of the rule there
	metric string
	open   bool // a level above leaves values open
	varies bool // so that metrics depend on values
	depth  int
}

// below is the place of a level.
func (at *place) below(l *level) *place {
	next := *at
	next.id += "/" + escape(l.key)
	if l.value != "" {
		next.id += "=" + escape(l.value)
	}
	var name strings.Builder
	name.WriteString(at.metric)
	addMetric(&name, l.key, l.value)
	next.metric = name.String()
	next.open = at.open || l.varies()
	next.varies = at.varies || l.varies() && l.valueToMetric
	next.depth++
	return &next
}

var escaper = strings.NewReplacer("%", "%25", "/", "%2F", "=", "%3D")

func escape(s string) string { return escaper.Replace(s) }
