package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
)

// Lines is a View that prints a line a second, and one for each event.
type Lines struct {
	w      io.Writer
	told   bool // what the lines say
	next   time.Duration
	events int // printed
}

// NewLines prints to w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w, next: time.Second} }

// Show implements View.
func (l *Lines) Show(s Snapshot) {
	if !l.told {
		l.told = true
		_, _ = fmt.Fprintln(l.w,
			"each second: permits taken and the limit; of workers, got and entitled;\n"+
				"of nodes, used or reserved and their share")
	}
	for _, e := range s.Events[l.events:] {
		_, _ = fmt.Fprintf(l.w, "%6s  * %s\n", seconds(e.At), e.Text)
	}
	l.events = len(s.Events)
	if s.Elapsed < l.next {
		return
	}
	l.next = s.Elapsed.Truncate(time.Second) + time.Second
	var workers, nodes []string
	for _, w := range s.Workers {
		workers = append(workers, draw.Count(int64(w.PerSecond+0.5))+"/"+draw.Count(int64(w.Entitled+0.5)))
	}
	for _, n := range s.Nodes {
		use := draw.Count(n.Used) + "/" + draw.Count(n.Share)
		if n.Away {
			use = "away"
		}
		nodes = append(nodes, use)
	}
	parts := []string{fmt.Sprintf("%6s  %s/s of %s", seconds(s.Elapsed), draw.Count(int64(s.PerSecond+0.5)), s.Limit)}
	parts = append(append(parts, " workers"), workers...)
	parts = append(append(parts, " nodes"), nodes...)
	_, _ = fmt.Fprintln(l.w, folded(parts))
}

// lineColumns is how long lines are at most.
const lineColumns = 80

// folded puts spaces between words, or has the line go on in the next row.
func folded(words []string) string {
	text, column := "", 0
	for i, word := range words {
		switch {
		case i > 0 && column+1+len(word) > lineColumns:
			text, column = text+"\n        "+strings.TrimPrefix(word, " "), 8+len(word)
		case i > 0:
			text, column = text+" "+word, column+1+len(word)
		default:
			text, column = word, len(word)
		}
	}
	return text
}

// Close implements View.
func (l *Lines) Close() {}
