package demo

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/spelling"
)

// Snapshot is what a frame shows.
type Snapshot struct {
	Elapsed, For time.Duration
	Limit        spelling.Rate // in force
	Workers      []WorkerLine
	Nodes        []NodeLine
	Events       []Event // oldest first
}

// WorkerLine is one worker of a Snapshot.
type WorkerLine struct {
	Name, How string
	PerSecond float64 // permits that it got lately
	Entitled  float64 // permits per second at which it has its part, as the limit is now
}

// NodeLine is one node of a Snapshot.
type NodeLine struct {
	Name        string
	Away        bool
	Shards      int64
	Share, Used int64 // of all its shards
}

// Event is something that happened, At a time since the beginning.
type Event struct {
	At   time.Duration
	Text string
}

func (s *stage) snapshot(elapsed time.Duration, state shardlimit.State) Snapshot {
	now := s.phases[len(s.phases)-1]
	shot := Snapshot{Elapsed: elapsed, For: s.config.For,
		Limit: spelling.Rate{Permits: now.limit, Per: s.config.Rate.Per}}
	for _, p := range s.phases[1:] {
		shot.Events = append(shot.Events, Event{time.Duration(p.done - s.phases[0].done), p.text})
	}
	var wants []int64
	for _, w := range s.workers {
		wants = append(wants, w.want)
	}
	for i, share := range entitled(now.limit-now.away, wants) {
		w := s.workers[i]
		shot.Workers = append(shot.Workers,
			WorkerLine{w.name, w.how, w.perSecond, float64(share) / s.config.Rate.Per.Seconds()})
	}
	for i, n := range s.servers.Nodes() {
		line := NodeLine{Name: nodeName(i)}
		for _, sh := range state.Shards {
			if sh.Node == n.Name {
				line.Shards, line.Share, line.Used = line.Shards+1, line.Share+sh.Share, line.Used+sh.Used
				line.Away = line.Away || sh.Err != nil
			}
		}
		shot.Nodes = append(shot.Nodes, line)
	}
	return shot
}

// Styles of a span, as the parameters of the ANSI sequence that sets them.
const (
	plain = ""
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
	cyan  = "36"
)

// span is text in one style; a row is one line of the screen.
type span struct{ style, text string }

type row []span

// render makes at most width columns of the row.
func (r row) render(width int, colour bool) string {
	var b strings.Builder
	for _, s := range r {
		text := draw.Clip(s.text, width)
		width -= len([]rune(text))
		if colour && s.style != plain && text != "" {
			text = "\x1b[" + s.style + "m" + text + "\x1b[0m"
		}
		b.WriteString(text)
	}
	return b.String()
}

const (
	leftColumns  = 46 // before the bars
	narrowestBar = 8
	widestBar    = 50

	// elsewhereEvery is how often a frame is printed where that is no terminal.
	elsewhereEvery = 2 * time.Second
)

// On returns what shows snapshots on a page, on a terminal in colour unless NO_COLOR is set.
func On(page *draw.Page) func(Snapshot) {
	colour := page.Terminal && os.Getenv("NO_COLOR") == ""
	next := elsewhereEvery
	return func(s Snapshot) {
		if !page.Terminal && s.Elapsed < next {
			return
		}
		next = s.Elapsed + elsewhereEvery
		width, height := page.Size()
		var rows []string
		for _, r := range frame(s, width, height) {
			rows = append(rows, strings.TrimRight(r.render(width, colour), " "))
		}
		_ = page.Show(rows) // who has closed it does not look
	}
}

// frame lays a snapshot out on a screen of the given size. What does not fit
// into the height is left out at the end.
func frame(s Snapshot, width, height int) []row {
	bar := min(max(width-leftColumns-1, narrowestBar), widestBar)
	limit, perSecond := float64(s.Limit.Permits)/s.Limit.Per.Seconds(), 0.0
	for _, w := range s.Workers {
		perSecond += w.PerSecond
	}
	rows := []row{
		{{bold, "shardlimit demo"},
			{plain, fmt.Sprintf("  one limit, %d workers, %d nodes", len(s.Workers), len(s.Nodes))},
			{dim, fmt.Sprintf("  %s of %s", seconds(s.Elapsed), seconds(s.For))}},
		nil,
		{{bold, fmt.Sprintf("%-24s %14s/s   ", "limit "+s.Limit.String(), draw.Count(int64(perSecond+0.5)))},
			{cyan, draw.Bar(perSecond/limit, bar)}},
	}
	rows = append(rows, workerRows(s, bar)...)
	rows = append(rows, nil)
	for _, n := range s.Nodes {
		rows = append(rows, nodeRow(n, bar))
	}
	rows = append(rows, nil)
	for _, e := range s.Events[len(s.Events)-max(0, min(len(s.Events), height-len(rows))):] { // the newest
		rows = append(rows, row{{dim, fmt.Sprintf("  %6s  ", seconds(e.At))}, {plain, e.Text}})
	}
	return rows[:min(height, len(rows))]
}

// workerRows have full bars where everybody has its part.
func workerRows(s Snapshot, bar int) []row {
	var rows []row
	var now []part
	for _, w := range s.Workers {
		got := draw.Count(int64(w.PerSecond+0.5)) + " of " + draw.Count(int64(w.Entitled+0.5))
		rows = append(rows,
			row{{plain, fmt.Sprintf("  %-9s ", w.Name)}, {dim, fmt.Sprintf("%-13s", draw.Clip(w.How, 13))},
				{plain, fmt.Sprintf("%14s/s   ", got)}, {green, draw.Bar(w.PerSecond/max(w.Entitled, 1e-9), bar)}})
		now = append(now, part{got: int64(1000 * w.PerSecond), entitled: int64(1000 * w.Entitled)})
	}
	d := divisionOf(now)
	return append(rows, row{{dim, fmt.Sprintf("  got of entitled: Jain's index %.3f, the least %s", d.jain,
		draw.Percent(d.least))}})
}

func nodeRow(n NodeLine, bar int) row {
	left := row{{plain, fmt.Sprintf("  %-9s ", n.Name)}, {dim, fmt.Sprintf("%-10s", draw.Plural(n.Shards, "shard"))}}
	if n.Away {
		return append(left, span{red, "  away; its part of the limit waits for it"})
	}
	use := fmt.Sprintf("%s of %s", draw.Count(n.Used), draw.Count(n.Share))
	return append(left, span{plain, fmt.Sprintf("%19s   ", use)},
		span{cyan, draw.Bar(float64(n.Used)/float64(max(n.Share, 1)), bar)})
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
