package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completed is what bash offers for the last of the words. The package bash-completion, of which
// the script uses one function, need not be there.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	script, code := shardlimitRun(t, "completion", "bash")
	if code != exitOK {
		t.Fatalf("completion bash ended with %d: %s", code, script)
	}
	bash := exec.Command("bash", "--norc", "-c", `
_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]}; }
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
__shardlimit_bash_autocomplete
printf '%s\n' "${COMPREPLY[@]}"`, "bash", keep(t, script))
	bash.Args = append(append(bash.Args, "shardlimit"), words...)
	bash.Env = append(cleanEnv(), "PATH="+filepath.Dir(built)+":"+os.Getenv("PATH"))
	out, err := bash.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Fields(string(out))
}

func keep(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBashCompletes(t *testing.T) {
	var all []string
	for _, c := range commands(console{}) {
		all = append(all, c.Name)
	}
	if got := completed(t, ""); !slices.Equal(got, append(all, "completion")) {
		t.Errorf("commands: %q", got)
	}
	for words, want := range map[string][]string{
		"se": {"serve", "set"}, "set --sh": {"--shards"}, "set mails --re": {"--redis", "--revision"},
		"completion ": {"bash", "fish", "pwsh", "zsh"},
	} {
		got := completed(t, strings.Split(words, " ")...)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q is completed to %q, want %q", words, got, want)
		}
	}
}

// A script for a shell is one that it can read, where there is that shell.
func TestCompletionScripts(t *testing.T) {
	for shell, says := range map[string]string{"bash": "complete ", "zsh": "#compdef shardlimit",
		"fish": "complete -c shardlimit", "pwsh": "shardlimit"} {
		script, code := shardlimitRun(t, "completion", shell)
		if code != exitOK || shell != "pwsh" && !strings.Contains(script, says) {
			t.Errorf("completion %s ended with %d: %s", shell, code, script)
		}
		path, err := exec.LookPath(shell)
		if err != nil || shell == "pwsh" {
			continue
		}
		if out, err := exec.Command(path, "-n", keep(t, script)).CombinedOutput(); err != nil || len(out) > 0 {
			t.Error(fmt.Errorf("%s: %w: %s", shell, err, out))
		}
	}
}
