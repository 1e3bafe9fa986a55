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
	next   time.Duration
	events int // printed
}

// NewLines prints to w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w, next: time.Second} }

// Show implements View.
func (l *Lines) Show(s Snapshot) {
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
		workers = append(workers, draw.Count(int64(w.PerSecond+0.5)))
	}
	for _, n := range s.Nodes {
		use := fmt.Sprintf("%d/%d", n.Used, n.Share)
		if n.Away {
			use = "away"
		}
		nodes = append(nodes, use)
	}
	_, _ = fmt.Fprintf(l.w, "%6s  %s/s (limit %s)  workers %s  nodes %s\n", seconds(s.Elapsed),
		draw.Count(int64(s.PerSecond+0.5)), s.Limit, strings.Join(workers, " "), strings.Join(nodes, " "))
}

// Close implements View.
func (l *Lines) Close() {}
