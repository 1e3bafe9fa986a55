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

// excerpt is a short table in another document: what stands between these two
// comments. The first names scenario and metric, the X, and the series, in the order of
// the table:
//
//	<!-- bench exact rate: 1, 64, 1024: shardlimit, redis_rate -->
var excerpt = regexp.MustCompile(`(?s)(<!-- bench (\S+) (\S+): ([^:>]*): ([^>]*?) -->\n).*?(<!-- /bench -->)`)

// Excerpts brings the short tables in a file up to date with the results that are
// stored in dir. Each cell is a median. A table whose scenario has no stored
// result stays as it is; one that asks for what the result does not have is an error.
func Excerpts(file, dir string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var failed []error
	fresh := excerpt.ReplaceAllStringFunc(string(text), func(old string) string {
		m := excerpt.FindStringSubmatch(old)
		r, err := Read(filepath.Join(dir, m[2]+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			return old
		}
		var table string
		if err == nil {
			table, err = r.medians(m[3], list(m[4]), list(m[5]))
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s, table of %s: %w", file, m[2], err))
			return old
		}
		return m[1] + table + m[6]
	})
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if fresh == string(text) {
		return nil
	}
	return os.WriteFile(file, []byte(fresh), 0o644)
}

func list(text string) []string {
	words := strings.Split(text, ",")
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	return words
}

// medians is the table of a metric at some X, as they are shown, for some series.
func (r *Result) medians(metric string, labels, series []string) (string, error) {
	i := slices.IndexFunc(r.Views, func(v View) bool { return v.Metric == metric })
	if i < 0 || r.Smoke {
		return "", fmt.Errorf("no view of %q, or a smoke run", metric)
	}
	v, all := r.Views[i], r.series(metric)
	var b strings.Builder
	fmt.Fprintf(&b, "| %s, by %s | %s |\n|---|%s\n", strings.ToLower(v.Title), v.X, strings.Join(labels, " | "),
		strings.Repeat("--:|", len(labels)))
	for _, name := range series {
		if !slices.Contains(all, name) {
			return "", fmt.Errorf("nobody is called %q, there are %s", name, strings.Join(all, ", "))
		}
		fmt.Fprintf(&b, "| %s |", name)
		for _, label := range labels {
			x := slices.IndexFunc(r.axis(metric), func(x float64) bool { return v.label(x) == label })
			if x < 0 {
				return "", fmt.Errorf("nothing was measured at %q", label)
			}
			if st, ok := r.find(name, r.axis(metric)[x], metric); ok {
				fmt.Fprintf(&b, " %s |", figure(st.Median))
			} else {
				b.WriteString("  |")
			}
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}
