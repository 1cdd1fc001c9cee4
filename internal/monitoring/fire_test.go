package monitoring

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v3"

	"github.com/stoutlock/stout/internal/testrun"
)

// alertTests has the parts of promtool's unit tests that our file uses.
type alertTests struct {
	Every model.Duration `yaml:"evaluation_interval"`
	Tests []alertTest
}

type alertTest struct {
	Name   string
	Every  model.Duration                    `yaml:"interval"` // between two samples
	Series []struct{ Series, Values string } `yaml:"input_series"`
	Checks []alertCheck                      `yaml:"alert_rule_test"`
}

// alertCheck has the labels and annotations with which an alert must fire at a time.
type alertCheck struct {
	At     model.Duration `yaml:"eval_time"`
	Alert  string         `yaml:"alertname"`
	Expect []struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	} `yaml:"exp_alerts"`
}

func readAlertTests(t *testing.T) (file alertTests) {
	t.Helper()
	text, err := os.ReadFile(unitTests)
	must(t, err)
	must(t, yaml.Unmarshal(text, &file))
	return file
}

// Each alert fires exactly when its tests want it, in Prometheus's own evaluation.
func TestAlertsFire(t *testing.T) {
	file := readAlertTests(t)
	for _, test := range file.Tests {
		t.Run(test.Name, func(t *testing.T) { test.run(t, time.Duration(file.Every)) })
	}
}

// run loads the series step by step. At each step it evaluates the rules of its checks
// and makes the checks of that step, as `promtool test rules` does.
func (test *alertTest) run(t *testing.T, every time.Duration) {
	load := "load " + test.Every.String() + "\n"
	for _, s := range test.Series {
		load += "  " + s.Series + " " + s.Values + "\n"
	}
	series, err := promqltest.NewLazyLoader(load, promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true, Parser: promql})
	must(t, err)
	defer series.Close()
	series.SubqueryInterval = every
	query := rules.EngineQueryFunc(series.QueryEngine(), series.Storage())
	checked := test.rules(t)
	last := slices.MaxFunc(test.Checks, func(a, b alertCheck) int { return int(a.At - b.At) }).At
	for at := time.Duration(0); at <= time.Duration(last); at += every {
		now := time.Unix(0, 0).Add(at).UTC()
		series.WithSamplesTill(now, func(err error) {
			for _, rule := range checked {
				if err == nil {
					_, err = rule.Eval(series.Context(), 0, now, query, &url.URL{}, 0)
				}
			}
			must(t, err)
		})
		for _, check := range test.Checks {
			if due := time.Duration(check.At); at <= due && due < at+every {
				check.make(t, checked)
			}
		}
	}
}

// rules returns the rules of the checked alerts.
func (test *alertTest) rules(t *testing.T) (checked []*rules.AlertingRule) {
	t.Helper()
	for _, a := range alerts(t) {
		if !slices.ContainsFunc(test.Checks, func(c alertCheck) bool { return c.Alert == a.Alert }) {
			continue
		}
		expr, err := promql.ParseExpr(a.Expr)
		must(t, err)
		rule := rules.NewAlertingRule(a.Alert, expr, time.Duration(a.For), time.Duration(a.KeepFiringFor),
			labels.FromMap(a.Labels), labels.FromMap(a.Annotations), labels.EmptyLabels(), "", true, promslog.NewNopLogger())
		checked = append(checked, rule)
	}
	return checked
}

// make compares the alerts that fire now with the expected ones.
func (check *alertCheck) make(t *testing.T, checked []*rules.AlertingRule) {
	t.Helper()
	var got, want []string
	for _, rule := range checked {
		for _, a := range rule.ActiveAlerts() {
			if rule.Name() == check.Alert && a.State == rules.StateFiring {
				got = append(got, fmt.Sprint(a.Labels, a.Annotations))
			}
		}
	}
	for _, e := range check.Expect {
		if e.Labels == nil {
			e.Labels = map[string]string{}
		}
		e.Labels[labels.AlertName] = check.Alert
		want = append(want, fmt.Sprint(labels.FromMap(e.Labels), labels.FromMap(e.Annotations)))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s after %s:\n%s\nwant\n%s", check.Alert, check.At, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Prometheus's own tool has the same results. It takes minutes to compile, since it
// includes the libraries of every cloud.
func TestAlertsFireByPromtool(t *testing.T) {
	testrun.Nightly(t)
	promtool := filepath.Join(binaries(t), "promtool")
	for _, args := range [][]string{
		{"go", "build", "-tags", "remove_all_sd", "-ldflags", "-w", "-o", promtool, "github.com/prometheus/prometheus/cmd/promtool"},
		{promtool, "check", "rules", "--lint-fatal", alertsFile},
		{promtool, "test", "rules", unitTests},
	} {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
