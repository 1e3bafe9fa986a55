package quiet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine returns the reading of a /proc of ten thousand ticks, so many of each kind.
func machine(t *testing.T, user, idle, steal, own, children int) Reading {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "self"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("stat", fmt.Sprintf("cpu  %d 0 0 %d 0 0 0 %d 7 7\ncpu0 1 2 3 4 5 6 7 8 9 10\n", user, idle, steal))
	write("self/stat",
		fmt.Sprintf("77 (a (b) c) S 1 77 77 0 -1 4194304 100 0 0 0 %d 0 %d 0 20 0 1 0 5 6 7\n", own, children))
	return Read(dir)
}

func TestWhatOthersTook(t *testing.T) {
	begin := machine(t, 1000, 1000, 100, 200, 0)
	for name, c := range map[string]struct {
		end           Reading
		others, steal float64
	}{
		"idle":         {machine(t, 1000, 2000, 100, 200, 0), 0, 0},
		"we worked":    {machine(t, 1800, 1200, 100, 700, 300), 0, 0},
		"others":       {machine(t, 1800, 1200, 100, 400, 100), 50, 0},
		"stolen":       {machine(t, 1000, 1500, 600, 200, 0), 0, 50},
		"more is ours": {machine(t, 1100, 1900, 100, 900, 0), 0, 0}, // children that began earlier
	} {
		if others, steal := c.end.since(begin); others != c.others || steal != c.steal {
			t.Errorf("%s: %v %v, want %v %v", name, others, steal, c.others, c.steal)
		}
	}
	if n := Between(begin, begin, begin); n != (Noise{Known: true}) {
		t.Errorf("no tick passed, and others used %+v", n)
	}
}

func TestNoise(t *testing.T) {
	rest := machine(t, 0, 0, 0, 0, 0)
	quiet := Between(rest, machine(t, 50, 1000, 10, 0, 0), machine(t, 950, 1100, 20, 900, 0))
	if quiet.Why() != "" || !quiet.Known {
		t.Errorf("%v is called busy: %s", quiet, quiet.Why())
	}
	for want, noise := range map[string]Noise{
		"before": Between(rest, machine(t, 500, 500, 0, 0, 0),
			machine(t, 500, 1500, 0, 0, 0)),
		"stolen before": Between(rest, machine(t, 0, 900, 100, 0, 0),
			machine(t, 0, 1900, 100, 0, 0)),
		"used 50 % of all cores meanwhile": Between(rest, machine(t, 0, 1000, 0, 0, 0), machine(t, 500, 1500, 0, 0, 0)),
		"10 % of all cores were stolen meanwhile": Between(rest, machine(t, 0, 1000, 0, 0, 0),
			machine(t, 0, 1900, 100, 0, 0)),
	} {
		if why := noise.Why(); !strings.Contains(why, want) {
			t.Errorf("%v: %q does not say %q", noise, why, want)
		}
	}
}

func TestOtherSystemsAreUnknown(t *testing.T) {
	nothing := Read(t.TempDir())
	n := Between(nothing, nothing, nothing)
	if n.Known || n.Why() != "" || n.String() != "unknown" {
		t.Errorf("%v, %q", n, n.Why())
	}
	for name, text := range map[string]string{"no line": "", "short": "cpu 1 2", "no numbers": "cpu a b c d e f g h",
		"another line": "cpux 1 2 3 4 5 6 7 8"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := Read(dir); r.known {
			t.Errorf("%s: known", name)
		}
	}
}

func TestBusy(t *testing.T) {
	for load, want := range map[string]bool{"0.49 9 9": false, "0.51 0 0": true, "unknown": false, "": false} {
		if got := Busy(load, 2); got != want {
			t.Errorf("load %q on 2 cores: busy %v, want %v", load, got, want)
		}
	}
}
