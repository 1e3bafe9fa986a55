package report

import (
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed intro.md
var intro embed.FS

// Document writes the Markdown file that shows the results which are stored in
// dir, in the order of names; scenarios without a stored result are left out.
// Results of smoke runs are refused.
func Document(file, dir string, names []string) error {
	text, err := intro.ReadFile("intro.md")
	if err != nil {
		return err
	}
	link, err := relative(filepath.Dir(file), dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.Write(text)
	for _, name := range names {
		r, err := Read(filepath.Join(dir, name+".json"))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		if r.Smoke {
			return fmt.Errorf("%s holds a smoke run; its figures mean nothing", name)
		}
		b.WriteString(r.section(filepath.ToSlash(link)))
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// relative is the path that leads from one folder to another, however each of
// them was named.
func relative(from, to string) (string, error) {
	from, err := filepath.Abs(from)
	if err != nil {
		return "", err
	}
	if to, err = filepath.Abs(to); err != nil {
		return "", err
	}
	return filepath.Rel(from, to)
}

// section is the part of the document about this result. link leads from the
// document to the folder of the results.
func (r *Result) section(link string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s: %s\n\n%s\n", r.Scenario, r.Title, r.Question)
	for _, v := range r.Views {
		if len(r.series(v.Metric)) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n### %s (%s)\n\n", v.Title, v.Unit)
		if v.Plot {
			fmt.Fprintf(&b, "![%s](%s)\n\n", v.Title, path.Join(link, r.plotName(v)))
		}
		b.WriteString(r.table(v))
	}
	for _, c := range r.Charts {
		fmt.Fprintf(&b, "\n### %s (%s)\n\n![%s](%s)\n", c.Title, c.Unit, c.Title, path.Join(link, r.chartName(c)))
	}
	if len(r.Remarks) > 0 {
		b.WriteString("\nRemarks of the run:\n\n")
		for _, remark := range r.Remarks {
			fmt.Fprintf(&b, "- %s\n", remark)
		}
	}
	b.WriteString("\n" + r.provenance(link))
	return b.String()
}

// provenance says where the figures come from.
func (r *Result) provenance(link string) string {
	facts := slices.Concat(
		[]Pair{
			{"Command", "`" + r.Command + "`"},
			{"Began", r.Began.UTC().Format(time.DateTime) + " UTC, took " + r.Took},
			{"Machine", fmt.Sprintf("%s, %d cores, %s, %s", r.Machine.CPU, r.Machine.Cores, r.Machine.Memory, r.Machine.System)},
			{"Load before", r.Machine.Load},
		},
		r.Settings,
		[]Pair{{"Versions", versions(r.Software)}, {"Raw results", fmt.Sprintf("[%s.json](%s)", r.Scenario, path.Join(link, r.Scenario+".json"))}},
	)
	var b strings.Builder
	b.WriteString("| run | |\n|---|---|\n")
	for _, f := range facts {
		fmt.Fprintf(&b, "| %s | %s |\n", f.Name, f.Value)
	}
	return b.String()
}

func versions(software []Pair) string {
	parts := make([]string, len(software))
	for i, s := range software {
		parts[i] = s.Name + " " + s.Value
	}
	return strings.Join(parts, ", ")
}
