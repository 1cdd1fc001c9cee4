package monitoring

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

const dashboardFile = "../../configs/grafana/stout.json"

// board has the parts of a dashboard that the tests check.
type board struct {
	UID        string
	Panels     []panel
	Templating struct{ List []variable }
}

type variable struct{ Name, Type, Definition string }

type panel struct {
	Type, Title, Description string
	Datasource               *struct{ Type, UID string }
	Targets                  []struct {
		Expr       string
		Datasource *struct{ Type, UID string }
	}
	GridPos     struct{ H, W, X, Y int }
	FieldConfig struct{ Defaults struct{ Unit string } }
}

func dashboard(t *testing.T) (b board) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	must(t, err)
	must(t, json.Unmarshal(text, &b))
	return b
}

// filled returns an expression of the dashboard with values for Grafana's variables.
func filled(expr string) string {
	return strings.NewReplacer("$job", "stout", "$__rate_interval", "1m").Replace(expr)
}

// The dashboard can be imported anywhere: it names no data source of its own. Each panel
// has a description and a unit.
func TestDashboard(t *testing.T) {
	b := dashboard(t)
	if b.UID != "" {
		t.Errorf("the uid %q may be taken where it is imported", b.UID)
	}
	if !slices.ContainsFunc(b.Templating.List, func(v variable) bool { return v.Name == "datasource" && v.Type == "datasource" }) {
		t.Error("no variable for the data source")
	}
	var rows []string
	for _, p := range b.Panels {
		if p.Type == "row" {
			rows = append(rows, p.Title)
			continue
		}
		if len(p.Targets) == 0 || len(p.Description) < 20 || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("panel %q: %d queries, described as %q, in %q", p.Title, len(p.Targets), p.Description, p.FieldConfig.Defaults.Unit)
		}
		if p.Datasource == nil || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %q has the data source %+v", p.Title, p.Datasource)
		}
		for _, q := range p.Targets {
			if q.Datasource == nil || q.Datasource.UID != "${datasource}" || !strings.Contains(q.Expr, `job="$job"`) {
				t.Errorf("panel %q queries %+v for %s", p.Title, q.Datasource, q.Expr)
			}
			if strings.Contains(filled(q.Expr), "$") {
				t.Errorf("panel %q uses an unknown variable: %s", p.Title, q.Expr)
			}
		}
	}
	if len(rows) < 7 {
		t.Errorf("rows %q", rows)
	}
	for i, p := range b.Panels {
		for _, o := range b.Panels[:i] {
			if p.GridPos.X < o.GridPos.X+o.GridPos.W && o.GridPos.X < p.GridPos.X+p.GridPos.W &&
				p.GridPos.Y < o.GridPos.Y+o.GridPos.H && o.GridPos.Y < p.GridPos.Y+p.GridPos.H {
				t.Errorf("panels %q and %q overlap", o.Title, p.Title)
			}
		}
	}
}
