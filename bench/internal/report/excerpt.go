package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// excerpt is what a page shows of a result: what stands between these two comments. There are
// three kinds, and in each a space may be the end of a line. A table names scenario and metric, the
// X, and the series, in the order of the table, all with commas, or with semicolons where names
// have commas:
//
//	<!-- bench exact rate: 1, 64, 1024: shardlimit, redis_rate -->
//	<!-- /bench -->
//
// A figure within a sentence has one X and one series, or two series and a stroke for how many
// times one is the other:
//
//	<!-- bench exact rate: 1024: shardlimit / redis_rate -->29<!-- /bench -->
//
// In place of the X may stand "least of all" or "most of all".
//
// The run is the command, and when and on what it was measured. Within a sentence it is shorter:
//
//	<!-- bench exact run -->
//	<!-- /bench -->
//	<!-- bench exact run -->2 January 2026, 2 cores (a CPU)<!-- /bench -->
var excerpt = regexp.MustCompile(`(?s)(<!-- bench\s+(\S+)\s+(?:run|(\S+?):\s+([^:>]*?):\s+([^>]*?))\s+-->)` +
	`(\n?)(.*?)(<!--\s+/bench\s+-->)`)

// Pages brings README.md and all Markdown pages in docs below a folder up to date with the results
// that are stored in dir. Each figure is a median. One whose scenario has no stored result stays as
// it is; one that asks for what the result does not have is an error, and then its page is not
// changed.
func Pages(folder, dir string) error {
	pages := []string{filepath.Join(folder, "README.md")}
	failed := []error{filepath.WalkDir(filepath.Join(folder, "docs"),
		func(path string, _ fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(path) == ".md" {
				pages = append(pages, path)
			}
			return err
		})}
	for _, page := range pages {
		failed = append(failed, excerpts(page, dir))
	}
	return errors.Join(failed...)
}

// excerpts brings one page up to date.
func excerpts(file, dir string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	now, err := refresh(string(text), dir)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if now == string(text) {
		return nil
	}
	return os.WriteFile(file, []byte(now), 0o644)
}

// refresh is a text with the excerpts that the results in dir have for it.
func refresh(text, dir string) (string, error) {
	var failed []error
	now := excerpt.ReplaceAllStringFunc(text, func(old string) string {
		m := excerpt.FindStringSubmatch(old)
		r, err := Read(filepath.Join(dir, m[2]+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			return old
		}
		var shown string
		if err == nil {
			shown, err = r.excerpt(m[3], oneLine(m[4]), oneLine(m[5]), m[6] == "")
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s of %s: %w", m[3], m[2], err))
			return old
		}
		return m[1] + m[6] + shown + m[8]
	})
	return now, errors.Join(failed...)
}

// excerpt is what a page shows; within says that it stands in a sentence.
func (r *Result) excerpt(metric, labels, series string, within bool) (string, error) {
	switch {
	case r.Smoke:
		return "", errors.New("a smoke run, whose figures mean nothing")
	case metric == "":
		return r.run(within), nil
	case within:
		return r.within(metric, labels, series)
	}
	return r.medians(metric, list(labels), list(series))
}

// run says how the result was measured.
func (r *Result) run(within bool) string {
	when := fmt.Sprintf("%s, %d cores", r.Began.UTC().Format("2 January 2006"), r.Machine.Cores)
	if within {
		if r.warning() != "" {
			return when + ", 🔴 **disturbed by others**"
		}
		return when + " (" + r.Machine.CPU + ")"
	}
	line := fmt.Sprintf("`%s`,\n%s", r.Command, when)
	if why := r.warning(); why != "" { // it is long
		return line + "\\\n🔴 **" + strings.NewReplacer(": ", ":\n", ", other", ",\nother").Replace(why) + "**\n"
	}
	if r.Noise != nil {
		line += "\\\nothers meanwhile: " + r.Noise.String()
	}
	return line + "\n"
}

// within is a figure in a sentence: a median, or how many times one is another.
func (r *Result) within(metric, label, series string) (string, error) {
	over, under, ratio := strings.Cut(series, " / ")
	value, err := r.value(metric, label, over)
	if err == nil && ratio {
		var base float64
		base, err = r.value(metric, label, under)
		value /= base
	}
	return strings.ReplaceAll(figure(value), " ", ","), err
}

// value is the median of a series at an X, or the least or the most of those at all.
func (r *Result) value(metric, label, series string) (float64, error) {
	if label != "least of all" && label != "most of all" {
		return r.at(metric, label, series)
	}
	var values []float64
	for _, p := range r.Points {
		if p.Metric == metric && p.Series == series {
			values = append(values, p.Stat.Median)
		}
	}
	if len(values) == 0 {
		return 0, fmt.Errorf("%q has no %q", series, metric)
	}
	if label == "least of all" {
		return slices.Min(values), nil
	}
	return slices.Max(values), nil
}

// at is the median of a series at an X as it is shown.
func (r *Result) at(metric, label, series string) (float64, error) {
	i := slices.IndexFunc(r.Views, func(v View) bool { return v.Metric == metric })
	if i < 0 {
		return 0, fmt.Errorf("there is no view of %q", metric)
	}
	for _, x := range r.axis(metric) {
		if r.Views[i].label(x) == label {
			if st, ok := r.find(series, x, metric); ok {
				return st.Median, nil
			}
		}
	}
	return 0, fmt.Errorf("%q has nothing at %q; there are %s", series, label, strings.Join(r.series(metric), ", "))
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// list parts a text at semicolons or, if there are none, at commas.
func list(text string) []string {
	separator := ","
	if strings.Contains(text, ";") {
		separator = ";"
	}
	words := strings.Split(text, separator)
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	return words
}

// medians is the table of a metric at some X, as they are shown, for some series.
func (r *Result) medians(metric string, labels, series []string) (string, error) {
	i := slices.IndexFunc(r.Views, func(v View) bool { return v.Metric == metric })
	if i < 0 {
		return "", fmt.Errorf("there is no view of %q", metric)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s, by %s | %s |\n|---|%s\n", strings.ToLower(r.Views[i].Title), r.Views[i].X,
		strings.Join(labels, " | "), strings.Repeat("--:|", len(labels)))
	for _, name := range series {
		fmt.Fprintf(&b, "| %s |", name)
		for _, label := range labels {
			value, err := r.at(metric, label, name)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, " %s |", figure(value))
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}
