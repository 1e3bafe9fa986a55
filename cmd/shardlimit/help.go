package main

import (
	"io"
	"strings"

	"github.com/urfave/cli/v3"
)

// helpWidth is how many columns a page of help has at the most.
const helpWidth = 80

func init() {
	cli.HelpPrinterCustom = func(w io.Writer, page string, of any, _ map[string]any) {
		cli.DefaultPrintHelpCustom(w, page, of, map[string]any{"wrapAt": func() int { return helpWidth }})
	}
	describe := cli.FlagStringer
	cli.FlagStringer = func(f cli.Flag) string { return underName(describe(f)) }
}

// underName puts what a flag does below its name, in lines of its own.
func underName(flag string) string {
	const margin, indent = 6, "    " // the page has the margin
	name, usage, _ := strings.Cut(flag, "\t")
	var b strings.Builder
	b.WriteString(name)
	room := 0
	for _, word := range strings.Fields(usage) {
		if room -= len(word) + 1; room < 0 {
			b.WriteString("\n" + indent + word)
			room = helpWidth - margin - len(indent) - len(word)
			continue
		}
		b.WriteString(" " + word)
	}
	return b.String()
}
