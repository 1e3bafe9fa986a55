package script

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/assembled anew")

const assembledFolder = "testdata/assembled"

// The whole text of every script stands in testdata/assembled, where it can be read, and where a
// change of a fragment shows what it does to each script.
func TestAssembled(t *testing.T) {
	want := map[string]string{"fewer.lua": strings.TrimSuffix(fewerPrograms[dropProgram].text,
		programs[dropProgram].text)}
	for i, p := range programs {
		want[recipes[i].file+".lua"] = p.text
	}
	frame, _ := takesFrame()
	want["takes.lua"] = strings.Join(frame, "\n") + "\n"
	if *update {
		writeAssembled(t, want)
	}
	for _, name := range assembledFiles(t) {
		text, err := os.ReadFile(filepath.Join(assembledFolder, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != want[name] {
			t.Errorf("%s is not what the fragments make: see what go test ./script -run TestAssembled -update changes",
				name)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is missing: go test ./script -run TestAssembled -update writes it", name)
	}
}

func writeAssembled(t *testing.T, want map[string]string) {
	t.Helper()
	if err := os.MkdirAll(assembledFolder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range assembledFiles(t) {
		if _, wanted := want[name]; !wanted {
			if err := os.Remove(filepath.Join(assembledFolder, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range want {
		if err := os.WriteFile(filepath.Join(assembledFolder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func assembledFiles(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(assembledFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// Every script that declares fewer keys is the same script behind fewer.lua.
func TestFewerKeysComeFirst(t *testing.T) {
	for i, p := range fewerPrograms {
		if p.text != "" && !strings.HasSuffix(p.text, "\n"+programs[i].text) {
			t.Errorf("%s is not %s behind fewer.lua", p.name, programs[i].name)
		}
	}
}

// Every fragment is in a script.
func TestNoFragmentIsLeftOver(t *testing.T) {
	used := []string{"fewer", "takes", "takes_each"}
	for i := range recipes {
		_, owners := recipes[i].assemble()
		used = append(used, owners...)
	}
	files, err := fragments.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(used, strings.TrimSuffix(file.Name(), ".lua")) {
			t.Errorf("%s is in no script", file.Name())
		}
	}
}

// takesFrame is the script with the names of the takes in place of what they do.
func takesFrame() (lines, owners []string) {
	return takesLines(func(take *recipe) []string {
		return []string{
			"  -- what " + take.file + ".lua does, with clock in place of TIME, info() in place of INFO,",
			"  -- saved() in place of LASTSAVE, and state in place of what it reads from KEYS[1]",
			"  return KEYS, ARGV, state, clock, info, saved",
		}
	})
}
