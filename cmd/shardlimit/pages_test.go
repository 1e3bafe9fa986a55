package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// TestCommandsOfThePages carries out each command of the tool that a page or a help shows, against
// servers in place of those that it names. Each does what it is for; those that watch or serve are
// interrupted.
func TestCommandsOfThePages(t *testing.T) {
	commands := shownCommands(t)
	if len(commands) < 15 {
		t.Fatalf("only %d commands were found", len(commands))
	}
	servers := redistest.Servers(t, 3)
	elsewhere := regexp.MustCompile("rediss://|/etc/") // tests of TLS and of settings have such files
	for place, command := range commands {
		if !elsewhere.MatchString(command) {
			t.Run(place, func(t *testing.T) {
				t.Parallel()
				carryOut(t, servers, command)
			})
		}
	}
}

// shownCommands are lines of pages and of help that begin with the name of the tool.
func shownCommands(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	add := func(place, text string) {
		for i, line := range strings.Split(strings.ReplaceAll(text, "\\\n    ", ""), "\n") {
			command, _, _ := strings.Cut(strings.TrimLeft(line, " "), "   ")
			if strings.HasPrefix(command, "shardlimit ") && !strings.Contains(command, "COMMAND") {
				found[fmt.Sprintf("%s:%d", place, i+1)] = command
			}
		}
	}
	pages := regexp.MustCompile("(?m)^(?:    .*|```sh\n(?:.*\n)*?```)$")
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			add(path, strings.Join(pages.FindAllString(read(t, path), -1), "\n"))
		}
		return err
	})
	limittest.Must(t, err)
	for _, c := range newApp(console{}).Commands {
		_, example, _ := strings.Cut(c.Description, "Example")
		add(c.Name, example)
	}
	return found
}

// carryOut runs a command as a shell would, with limits and files as pages have them.
func carryOut(t *testing.T, servers []*redistest.Server, command string) {
	t.Helper()
	folder, addresses := t.TempDir(), []string{}
	for i, s := range servers {
		before := command
		for _, name := range []string{fmt.Sprintf("redis-%c:6379", 'a'+i), fmt.Sprintf("10.0.0.%d:6379", 1+i)} {
			command = strings.ReplaceAll(command, name, s.Addr())
		}
		if i == 0 || command != before || !strings.Contains(command, "--redis") && i == 1 { // or by the environment
			addresses = append(addresses, s.Addr())
		}
	}
	command = regexp.MustCompile(`127\.0\.0\.1:808\d`).ReplaceAllString(command, "127.0.0.1:0")
	command = strings.Replace(command, "shardlimit serve", "shardlimit serve --listen 127.0.0.1:0", 1)
	for name, text := range map[string]string{"todo": "a\nb\n", "urls.txt": "a\nb\n", "shop.yaml": envoyConfig,
		"fetch": "#!/bin/sh\ncat > got", "pull": "#!/bin/sh\ncat > got", "send-mail": "#!/bin/sh"} {
		limittest.Must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o700))
	}
	limittest.Must(t, os.Symlink(built, filepath.Join(folder, "shardlimit")))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	prefix := redistest.Prefix(t)
	declareShown(t, prefix, addresses)
	cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+command)
	if strings.ContainsAny(command, "|&") {
		cmd.Args[2] = command
	}
	cmd.Dir, cmd.WaitDelay = folder, time.Minute
	cmd.Env = append(cleanEnv(), "SHARDLIMIT_PREFIX="+prefix, "SHARDLIMIT_REDIS="+strings.Join(addresses, ","),
		"PATH="+folder+":"+os.Getenv("PATH"))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if regexp.MustCompile("^shardlimit (serve|demo)|--every").MatchString(command) {
		time.AfterFunc(2*time.Second, cancel) // it does not end by itself
	}
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("%s\n%v: %s", command, err, out)
	}
}

// declareShown makes the limits that pages name.
func declareShown(t *testing.T, prefix string, addresses []string) {
	t.Helper()
	client := clientOf(t, []string{"--prefix", prefix, "--redis", strings.Join(addresses, ",")})
	limittest.Family(t, client, "users", shardlimit.PerMinute(30))
	for _, name := range []string{"mails", "import", "pulls"} {
		limittest.Limiter(t, client, name, shardlimit.PerSecond(500))
	}
}
