package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// coming is the head of what the next release brings; link is where it points to.
const coming = "\n## [Unreleased]\n"

var link = regexp.MustCompile(`(?m)^\[Unreleased\]: (\S+)/commits/\S+\n`)

// dateChangelog has what is unreleased become the release of today. It does so once, and nothing
// where there is no changelog.
func dateChangelog(root, version string) error {
	name, number := filepath.Join(root, "CHANGELOG.md"), strings.TrimPrefix(version, "v")
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && changelogHas(string(text), version) {
		return nil
	}
	before, after, found := strings.Cut(string(text), coming)
	if err != nil || !found {
		return errors.Join(err, fmt.Errorf("%s has no %q", name, strings.TrimSpace(coming)))
	}
	changed := fmt.Sprintf("%s%s\n## [%s] - %s\n%s", before, coming, number, time.Now().Format(time.DateOnly), after)
	changed = link.ReplaceAllString(changed, "${0}["+number+"]: ${1}/releases/tag/"+version+"\n")
	return os.WriteFile(name, []byte(changed), 0o644)
}

// changelogHas reports whether a changelog tells of a version.
func changelogHas(text, version string) bool {
	return strings.Contains(text, "\n## ["+strings.TrimPrefix(version, "v")+"] - ")
}
