package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is one line of go test -json; see go doc test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output and build-fail
	Test       string
	Output     string
}

type testID struct{ pkg, test string }

// gate follows a test stream. Output of a test is held back until its verdict
// is known and printed only if that is not a pass.
type gate struct {
	out     io.Writer
	held    map[testID][]string
	passed  int
	failed  []string
	skipped []string
}

func newGate(out io.Writer) *gate {
	return &gate{out: out, held: make(map[testID][]string)}
}

// read consumes the stream up to its end. Lines that are not JSON are passed
// on as they are: the go command prints some of its own troubles that way.
func (g *gate) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				g.take(e)
			} else {
				fmt.Fprintf(g.out, "%s\n", strings.TrimRight(string(line), "\r\n"))
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the test stream: %w", err)
		}
	}
}

func (g *gate) take(e event) {
	id := testID{e.Package, e.Test}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(g.out, e.Output)
	case e.Action == "build-fail":
		g.failed = append(g.failed, e.ImportPath+" (build)")
	case e.Action == "output" && e.Test == "":
		g.packageLine(e.Output)
	case e.Action == "output":
		g.held[id] = append(g.held[id], e.Output)
	case e.Action == "fail" && e.Test == "":
		g.failed = append(g.failed, e.Package)
		g.flushPackage(e.Package)
	case e.Action == "fail":
		g.failed = append(g.failed, e.Package+"."+e.Test)
		g.flush(id)
	case e.Action == "skip" && e.Test != "":
		g.skipped = append(g.skipped, e.Package+"."+e.Test)
		g.flush(id)
	case e.Action == "pass" && e.Test != "":
		g.passed++
		delete(g.held, id)
	}
}

// packageLine prints what a package says outside its tests: the ok and FAIL
// lines, panics, data races. The bare PASS and FAIL before them say nothing new.
func (g *gate) packageLine(text string) {
	if text != "PASS\n" && text != "FAIL\n" {
		fmt.Fprint(g.out, text)
	}
}

func (g *gate) flush(id testID) {
	for _, text := range g.held[id] {
		fmt.Fprint(g.out, text)
	}
	delete(g.held, id)
}

// flushPackage prints what is held of tests without a verdict: those that were
// running when the package crashed or timed out.
func (g *gate) flushPackage(pkg string) {
	for id := range g.held {
		if id.pkg == pkg {
			g.flush(id)
		}
	}
}

// close prints the summary and reports whether all is well.
func (g *gate) close() bool {
	for _, name := range g.skipped {
		fmt.Fprintln(g.out, "SKIPPED", name)
	}
	for _, name := range g.failed {
		fmt.Fprintln(g.out, "FAILED", name)
	}
	fmt.Fprintf(g.out, "tests: %d passed, %d failed, %d skipped\n", g.passed, len(g.failed), len(g.skipped))
	if g.passed == 0 && len(g.failed) == 0 {
		fmt.Fprintln(g.out, "FAILED no test ran")
	}
	return g.passed > 0 && len(g.failed) == 0 && len(g.skipped) == 0
}
