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
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for i, p := range programs {
		texts[recipes[i].file] = p.text
	}
	for name, text := range texts {
		if strings.Contains(text, directive) || !strings.HasPrefix(text, "-- "+name+"\n") {
			t.Errorf("%s is not ready to be sent", name)
		}
		if err := os.WriteFile(filepath.Join(folder, name+".lua"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if len(texts) != programCount {
		t.Errorf("%d texts of %d scripts", len(texts), programCount)
	}
}

// Every fragment is in a script.
func TestNoFragmentIsLeftOver(t *testing.T) {
	var used []string
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
