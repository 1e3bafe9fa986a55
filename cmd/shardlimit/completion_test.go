package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completed is what bash offers for the last of the words. The package bash-completion, of which
// the script uses one function, need not be there.
func completed(t *testing.T, script string, words ...string) []string {
	t.Helper()
	bash := exec.Command("bash", "--norc", "-c", `
_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]}; }
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
__shardlimit_bash_autocomplete
printf '%s\n' "${COMPREPLY[@]}"`, "bash", script, "shardlimit")
	bash.Args = append(bash.Args, words...)
	bash.Env = append(cleanEnv(), "PATH="+filepath.Dir(built)+":"+os.Getenv("PATH"))
	out, err := bash.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Fields(string(out))
}

// Bash completes by its script. That of each other shell is printed.
func TestBashCompletes(t *testing.T) {
	scripts := map[string]string{}
	for shell, says := range map[string]string{"bash": "complete ", "zsh": "#compdef shardlimit",
		"fish": "complete -c shardlimit", "pwsh": "Register-ArgumentCompleter"} {
		text, code := runHere(t, "completion", shell)
		if scripts[shell] = text; code != exitOK || !strings.Contains(text, says) {
			t.Errorf("completion %s ended with %d: %s", shell, code, text)
		}
	}
	script := file(t, "script", scripts["bash"])
	var all []string
	for _, c := range commands(console{}) {
		all = append(all, c.Name)
	}
	if got := completed(t, script, ""); !slices.Equal(got, append(all, "completion")) {
		t.Errorf("commands: %q", got)
	}
	for words, want := range map[string][]string{
		"se": {"serve", "set"}, "set --sh": {"--shards"}, "set mails --re": {"--redis", "--revision"},
		"completion ": {"bash", "fish", "pwsh", "zsh"},
	} {
		got := completed(t, script, strings.Split(words, " ")...)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q is completed to %q, want %q", words, got, want)
		}
	}
}
