package script

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var assembledFolder = flag.String("assembled", "", "write the whole text of every script to this folder")

// Whole scripts can be written to a folder, to be read and to be linted: nothing that is meant for
// the assembly is left in them.
func TestAssembled(t *testing.T) {
	folder := *assembledFolder
	if folder == "" {
		folder = t.TempDir()
	}
	texts := map[string]string{}
	for i, p := range programs {
		texts[recipes[i].file] = p.text
	}
	frame, _ := takesFrame()
	texts["takes"] = strings.Join(frame, "\n") + "\n"
	for name, text := range texts {
		if strings.Contains(text, directive) || !strings.HasPrefix(text, "-- "+name+" = ") {
			t.Errorf("%s is not ready to be sent", name)
		}
		if err := os.WriteFile(filepath.Join(folder, name+".lua"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want := programCount + 1; len(texts) != want {
		t.Errorf("%d texts of %d scripts", len(texts), want)
	}
}

// Every fragment is in a script.
func TestNoFragmentIsLeftOver(t *testing.T) {
	used := []string{"takes", "takes_each"}
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
			"  -- what " + take.file + ".lua does, with clock in place of TIME",
			"  return KEYS, ARGV, clock",
		}
	})
}
