package telemetrytest

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Sizes of the picture, in pixels.
const (
	wide      = 820
	left      = 170 // where time begins
	right     = 20
	rowHeight = 46
	barHeight = 18
	top       = 34
)

// style is readable on light and on dark pages.
const style = `<style>
text { font: 12px system-ui, sans-serif; fill: #24292f }
.small { font-size: 10.5px; fill: #57606a }
.ground { fill: #ffffff }
.request { fill: #54a3e8 }
.call { fill: #e8833a }
.axis, .link { stroke: #8c959f; fill: none }
.link { stroke-dasharray: 3 3 }
.parent { stroke: #e8833a; fill: none; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) { .ground { fill: #0d1117 } text { fill: #e6edf3 } .small { fill: #9da7b3 } }
</style>
`

// chart maps time to pixels.
type chart struct {
	strings.Builder
	begin time.Time
	scale float64 // pixels in a nanosecond
}

func (c *chart) x(at time.Time) float64 { return left + float64(at.Sub(c.begin))*c.scale }

// drawTrace draws requests, the script call that served them, and what is between.
func drawTrace(requests []sdktrace.ReadOnlySpan, call sdktrace.ReadOnlySpan) string {
	slices.SortFunc(requests, func(a, b sdktrace.ReadOnlySpan) int { // that of the call's trace last
		switch call.Parent().SpanID() {
		case a.SpanContext().SpanID():
			return 1
		case b.SpanContext().SpanID():
			return -1
		}
		return a.StartTime().Compare(b.StartTime())
	})
	begin, end := call.StartTime(), call.EndTime()
	for _, r := range requests {
		if r.StartTime().Before(begin) {
			begin = r.StartTime()
		}
		if r.EndTime().After(end) {
			end = r.EndTime()
		}
	}
	c := &chart{begin: begin, scale: float64(wide-left-right) / float64(end.Sub(begin))}
	height := top + rowHeight*(len(requests)+1) + 10
	fmt.Fprintf(c,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n",
		wide, height, wide, height)
	c.WriteString("<title>A trace from HTTP requests to the script call that served them</title>\n" + style)
	fmt.Fprintf(c, `<rect class="ground" width="%d" height="%d" rx="6"/>`+"\n", wide, height)
	c.axis(end)
	at := func(row int) int { return top + row*rowHeight }
	for i, r := range requests { // first, so that bars lie on them
		class := "link"
		if r.SpanContext().SpanID() == call.Parent().SpanID() {
			class = "parent"
		}
		x := c.x(call.EndTime()) - float64(12*(len(requests)-i))
		fmt.Fprintf(c, `<path class="%s" d="M%.1f %d V%d"/>`+"\n", class, x, at(i)+barHeight, at(len(requests)))
	}
	for i, r := range requests {
		c.bar(r, "request", at(i), "ratelimit.limiter", "ratelimit.outcome", "ratelimit.remaining")
	}
	c.bar(call, "call", at(len(requests)), "ratelimit.node", "ratelimit.shard", "db.operation.batch.size")
	c.WriteString("</svg>\n")
	return c.String()
}

// axis writes the time at the beginning and the end.
func (c *chart) axis(end time.Time) {
	fmt.Fprintf(c, `<path class="axis" d="M%d %d H%d"/>`+"\n", left, top-8, wide-right)
	fmt.Fprintf(c, `<text class="small" x="%d" y="%d">0 ms</text>`+"\n", left, top-14)
	fmt.Fprintf(c, `<text class="small" x="%d" y="%d" text-anchor="end">%.1f ms</text>`+"\n", wide-right, top-14,
		float64(end.Sub(c.begin))/float64(time.Millisecond))
}

// bar draws a span with its name before it and some of its attributes below.
func (c *chart) bar(s sdktrace.ReadOnlySpan, class string, y int, keys ...string) {
	fmt.Fprintf(c, `<text x="8" y="%d">%s</text>`+"\n", y+13, html.EscapeString(s.Name()))
	fmt.Fprintf(c, `<text class="small" x="8" y="%d">trace %.8s</text>`+"\n", y+28, s.SpanContext().TraceID())
	fmt.Fprintf(c, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d" rx="3"/>`+"\n", class, c.x(s.StartTime()),
		y,
		max(c.x(s.EndTime())-c.x(s.StartTime()), 2), barHeight)
	var told []string
	for _, key := range keys {
		told = append(told, key+" = "+attributes(s)[key])
	}
	fmt.Fprintf(c, `<text class="small" x="%d" y="%d">%s</text>`+"\n", left, y+31,
		html.EscapeString(strings.Join(told, ", ")))
}
