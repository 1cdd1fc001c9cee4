package monitoring

import (
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	alertsFile = "../../configs/prometheus/alerts.yaml"
	unitTests  = "../../configs/prometheus/alerts_test.yaml"
	runbooks   = "../../docs/alerts.md"
	runbookURL = "https://github.com/stoutlock/stout/blob/main/docs/alerts.md#"
)

var promql = parser.NewParser(parser.Options{})

// alerts returns the rules as Prometheus reads them.
func alerts(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	groups, errs := rulefmt.ParseFile(alertsFile, false, model.UTF8Validation, promql, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Fatal(err)
	}
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 20 {
		t.Fatalf("only %d alerts", len(all))
	}
	return all
}

// For each alert there is a test in which it fires, and a test in which it does not.
func TestAlertsAreTested(t *testing.T) {
	fires, rests := map[string]bool{}, map[string]bool{}
	for _, test := range readAlertTests(t).Tests {
		for _, c := range test.Checks {
			if len(c.Expect) > 0 {
				fires[c.Alert] = true
			} else {
				rests[c.Alert] = true
			}
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] || !rests[a.Alert] {
			t.Errorf("%s: fires in a test: %v, does not in one: %v", a.Alert, fires[a.Alert], rests[a.Alert])
		}
		delete(fires, a.Alert)
		delete(rests, a.Alert)
	}
	if len(fires)+len(rests) > 0 {
		t.Errorf("tests of unknown alerts: %v, %v", slices.Sorted(maps.Keys(fires)), slices.Sorted(maps.Keys(rests)))
	}
}

var heading = regexp.MustCompile(`(?m)^## (Stout\w+)$`)

// Each alert links to a section of the runbooks with its meaning and cure.
func TestAlertsHaveRunbooks(t *testing.T) {
	text, err := os.ReadFile(runbooks)
	must(t, err)
	sections := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		sections[m[1]]++
	}
	for _, a := range alerts(t) {
		if s := a.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has the severity %q", a.Alert, s)
		}
		for _, name := range []string{"summary", "description"} {
			if len(a.Annotations[name]) < 20 {
				t.Errorf("%s has the %s %q", a.Alert, name, a.Annotations[name])
			}
		}
		if got, want := a.Annotations["runbook_url"], runbookURL+strings.ToLower(a.Alert); got != want {
			t.Errorf("%s links to %s, want %s", a.Alert, got, want)
		}
		if sections[a.Alert] != 1 {
			t.Errorf("%s has %d sections in %s", a.Alert, sections[a.Alert], runbooks)
		}
		delete(sections, a.Alert)
	}
	for name := range sections {
		t.Errorf("%s has a section %s, but no such alert exists", runbooks, name)
	}
}
