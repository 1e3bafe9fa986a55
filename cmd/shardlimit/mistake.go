package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
)

// This file says what is wrong with a command line, and what was probably meant.

// knownCommand refuses a command that there is not, before its flags are looked at: which flags
// there are depends on the command.
func knownCommand(app *cli.Command, args []string) error {
	if slices.Contains(args, completing) {
		return nil
	}
	if err := flagsFirst(app, args); err != nil {
		return err
	}
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") { // the program's own flags take no value
			continue
		}
		if arg == "completion" || app.Command(arg) != nil {
			return nil
		}
		names := []string{"completion", "--version"}
		for _, c := range app.Commands {
			names = append(names, c.Name)
		}
		return usagef("there is no command %q%s; see shardlimit --help", arg, didYouMean(arg, "", names))
	}
	return nil
}

// flagsFirst refuses flags of a command that stand before it.
func flagsFirst(app *cli.Command, args []string) error {
	if len(args) == 0 || !strings.HasPrefix(args[0], "-") {
		return nil
	}
	flag, _, _ := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	for _, arg := range args[1:] {
		c := app.Command(arg)
		if c == nil {
			continue
		}
		if hasFlag(app, flag) || !hasFlag(c, flag) {
			return nil
		}
		shown := arg
		if names := strings.Fields(c.ArgsUsage); len(names) > 0 {
			shown = fmt.Sprintf("%s %s", arg, names[0])
			if after := args[len(args)-1]; after != arg && !strings.HasPrefix(after, "-") {
				shown = fmt.Sprintf("%s %s", arg, after)
			}
		}
		return usagef("flags come after the command: shardlimit %s --%s ...", shown, flag)
	}
	return nil
}

// mistake is what the command line package found wrong, in plain words.
func mistake(cmd *cli.Command, err error) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var names []string
		for _, f := range cmd.Flags {
			names = append(names, f.Names()...)
		}
		names = slices.DeleteFunc(names, func(n string) bool { return len(n) == 1 })
		dashes := "--"
		if len(name) == 1 {
			dashes = "-"
		}
		return fmt.Errorf("%s has no flag %s%s%s", called(cmd), dashes, name, didYouMean(name, "--", names))
	}
	if flag, ok := strings.CutPrefix(text, "flag needs an argument: "); ok {
		return fmt.Errorf("%s needs a value", flag)
	}
	value, flag, ok := cutInvalid(text)
	if !ok {
		return err
	}
	if kind := kindOf(text); kind != "" {
		return fmt.Errorf("--%s is %s; it must be %s", flag, value, kind)
	}
	return err
}

// kindOf is what a flag must be whose value could not be read; empty if the error does not tell.
func kindOf(text string) string {
	for function, kind := range map[string]string{
		"parse error": "true or false", "strconv.ParseFloat": "a number", "strconv.ParseInt": "a whole number",
		"time: ": "a time, such as 10s or 500ms",
	} {
		if strings.Contains(text, function) {
			return kind
		}
	}
	return ""
}

// cutInvalid takes apart: invalid value "x" for flag -name: why.
func cutInvalid(text string) (value, flag string, ok bool) {
	rest, ok := strings.CutPrefix(text, "invalid value ")
	if !ok {
		return "", "", false
	}
	value, rest, ok = strings.Cut(rest, " for flag -")
	flag, _, _ = strings.Cut(rest, ":")
	return value, flag, ok
}

// didYouMean offers the name that is most like the word, if one is; else it is empty.
func didYouMean(word, dashes string, names []string) string {
	best, least := "", max(2, len(word)/3+1)
	for _, name := range names {
		if d := typos(strings.ToLower(word), name); d < least {
			best, least = name, d
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + dashes + best + "?)"
}

// typos counts the letters that are missing, too many, other ones, or swapped with their neighbour.
func typos(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			other := 1
			if a[i] == b[j] {
				other = 0
			}
			row[j+1] = min(last[j]+other, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
