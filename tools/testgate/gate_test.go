package main

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	pass = `{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}` + "\n" +
		`{"Action":"pass","Package":"p","Test":"TestA"}` + "\n"
	packOK = `{"Action":"output","Package":"p","Output":"PASS\n"}` + "\n" +
		`{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}` + "\n" + `{"Action":"pass","Package":"p"}` + "\n"
	skip = `{"Action":"output","Package":"p","Test":"TestB","Output":"no server\n"}` + "\n" +
		`{"Action":"skip","Package":"p","Test":"TestB"}` + "\n"
	fail = `{"Action":"output","Package":"p","Test":"TestC","Output":"got 1\n"}` + "\n" +
		`{"Action":"fail","Package":"p","Test":"TestC"}` + "\n"
	crash = `{"Action":"output","Package":"p","Test":"TestD","Output":"was here\n"}` + "\n" +
		`{"Action":"fail","Package":"p"}` + "\n"
	noTests = `{"Action":"output","Package":"q","Output":"?   \tq\t[no test files]\n"}` + "\n" +
		`{"Action":"skip","Package":"q"}` + "\n"
	broken = `{"ImportPath":"p","Action":"build-output","Output":"p.go:1: oops\n"}` + "\n" +
		`{"ImportPath":"p","Action":"build-fail"}` + "\n"
)

func TestGate(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		ok       bool
		want     []string // must be printed
		not      string   // must not be printed
	}{
		{"pass", pass + packOK, true, []string{"ok  \tp\t0.1s", "1 passed, 0 failed, 0 skipped"}, "quiet"},
		{"package without tests", pass + packOK + noTests, true, []string{"[no test files]"}, "SKIPPED"},
		{"skip", pass + skip + packOK, false, []string{"no server", "SKIPPED p.TestB"}, "FAILED"},
		{"fail", pass + fail, false, []string{"got 1", "FAILED p.TestC"}, "quiet"},
		{"crash", pass + crash, false, []string{"was here", "FAILED p"}, "quiet"},
		{"does not build", broken, false, []string{"oops", "FAILED p (build)"}, "no test ran"},
		{"nothing", noTests, false, []string{"no test ran"}, "SKIPPED"},
		{"plain text", "go: trouble\n" + pass, true, []string{"go: trouble"}, "FAILED"},
	} {
		var out strings.Builder
		g := newGate(&out)
		if err := g.read(strings.NewReader(tt.in)); err != nil {
			t.Fatal(err)
		}
		if got := g.close(); got != tt.ok {
			t.Errorf("%s: ok = %v, want %v", tt.name, got, tt.ok)
		}
		for _, want := range tt.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: output lacks %q:\n%s", tt.name, want, &out)
			}
		}
		if strings.Contains(out.String(), tt.not) {
			t.Errorf("%s: output has %q:\n%s", tt.name, tt.not, &out)
		}
	}
}

func TestGateUnreadable(t *testing.T) {
	if err := newGate(&strings.Builder{}).read(iotest.ErrReader(errors.New("unreadable"))); err == nil {
		t.Error("no error from a reader that fails")
	}
}
