package deploy

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

const dashboardFile = "grafana/dashboard.json"

func content(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	limittest.Must(t, err)
	return text
}

// Grafana's own types, made from its schema, read the dashboard and find no field that they do not
// know, also in panels and queries.
func TestGrafanaReadsTheDashboard(t *testing.T) {
	plugins.RegisterDefaultPlugins() // else it knows no panels
	//lint:ignore SA1019 files for provisioning have this form; dashboardv2 is that of another API
	var d dashboard.Dashboard
	for _, err := range []error{d.UnmarshalJSONStrict(content(t, dashboardFile)), d.Validate()} {
		var found cog.BuildErrors // an empty one is no error
		if err != nil && (!errors.As(err, &found) || len(found) > 0) {
			t.Error(err)
		}
	}
}

// board is what the checks here need of a dashboard.
type board struct {
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ X, Y, W, H int }
		Targets                  []struct{ Expr string }
	}
}

func readBoard(t *testing.T) (b board) {
	t.Helper()
	limittest.Must(t, json.Unmarshal(content(t, dashboardFile), &b))
	return b
}

// Panels lie beside each other, each with an id of its own, a description, and queries whose
// variables exist.
func TestPanelsAreInOrder(t *testing.T) {
	b := readBoard(t)
	variables := map[string]bool{"__rate_interval": true}
	for _, v := range b.Templating.List {
		variables[v.Name] = true
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	used := regexp.MustCompile(`\$\{?(\w+)`)
	for _, p := range b.Panels {
		if ids[p.ID] {
			t.Errorf("%s: id %d is taken", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("%s has no description or no query", p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies on %q or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			for _, m := range used.FindAllStringSubmatch(target.Expr, -1) {
				if !variables[m[1]] {
					t.Errorf("%s: there is no variable %s", p.Title, m[1])
				}
			}
		}
	}
}
