package server_test

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/stoutlock/stout/internal/apicheck"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

func document(t testing.TB) *apicheck.Document {
	t.Helper()
	doc, err := apicheck.Load(lockapi.OpenAPI())
	must(t, err)
	return doc
}

// Every operation of the document, with every documented success, runs against
// the master and through a forwarding replica.
func TestEachOperationIsAsDocumented(t *testing.T) {
	for _, through := range testrun.Rows(t, 1, []string{"master", "replica"}) {
		t.Run(through, func(t *testing.T) {
			master, replica := startPair(t, nil)
			checker := apicheck.NewChecker(document(t), nil)
			base := master.url
			if through == "replica" {
				base = replica.url
			}
			apicheck.Run(t, checker, base, apicheck.Steps)
			if missing := checker.Missing(); len(missing) > 0 {
				t.Errorf("documented but never seen: %q; add a step to internal/apicheck/steps.go", missing)
			}
		})
	}
}

func TestRoutesAndDocumentAgree(t *testing.T) {
	routed := server.Routes()
	for _, o := range document(t).Operations() {
		route := o.Method + " " + o.Path
		if !slices.Contains(routed, route) {
			t.Errorf("in lockapi/openapi.in.yaml and not in lockapi/server/routes.go: %s", route)
		}
		routed = slices.DeleteFunc(routed, func(r string) bool { return r == route })
	}
	for _, route := range routed {
		t.Errorf("in lockapi/server/routes.go and not in lockapi/openapi.in.yaml: %s", route)
	}
}

// The table of routes has exactly the parameters of the document, and the
// server enforces the table.
func TestParametersAreAsDocumented(t *testing.T) {
	n := startMaster(t, nil)
	for _, o := range document(t).Operations() {
		if got := server.Params(o.Method, o.Path); !maps.Equal(got, o.Query) {
			t.Errorf("%s %s: the document has %v, the table %v", o.Method, o.Path, o.Query, got)
		}
		url := n.url + strings.NewReplacer("{path}", "a", "{id}", "s1").Replace(o.Path)
		e := call(t, o.Method, url+"?nonsense=1", "").wantCode(t, lockapi.CodeInvalidArgument)
		if e.Field != "nonsense" {
			t.Errorf("%s %s: field %q", o.Method, o.Path, e.Field)
		}
		for name, required := range o.Query {
			if !required {
				continue
			}
			if e := call(t, o.Method, url, "").wantCode(t, lockapi.CodeInvalidArgument); e.Field != name {
				t.Errorf("%s %s without %s: field %q", o.Method, o.Path, name, e.Field)
			}
		}
	}
}

func TestDocumentHasEveryCode(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas struct {
				Code struct {
					Enum []lockapi.Code `yaml:"enum"`
				} `yaml:"Code"`
			} `yaml:"schemas"`
		} `yaml:"components"`
	}
	must(t, yaml.Unmarshal(lockapi.OpenAPI(), &doc))
	got := strings.Join(sorted(doc.Components.Schemas.Code.Enum), " ")
	if want := strings.Join(sorted(lockapi.Codes()), " "); got != want {
		t.Errorf("document has codes %q, lockapi has %q", got, want)
	}
}

// TestGeneratorsGetNamesAndSizes: generators of clients put all components into
// one namespace, and take an integer for 32 bits without a format.
func TestGeneratorsGetNamesAndSizes(t *testing.T) {
	var doc map[string]any
	must(t, yaml.Unmarshal(lockapi.OpenAPI(), &doc))
	kinds := map[string]string{}
	for kind, components := range doc["components"].(map[string]any) {
		for name := range components.(map[string]any) {
			if other, twice := kinds[strings.ToLower(name)]; twice {
				t.Errorf("%s is in %s and in %s", name, kind, other)
			}
			kinds[strings.ToLower(name)] = kind
			if name == "File" || name == "Blob" {
				t.Errorf("%s in %s hides the type of JavaScript that generators use for a file's content", name, kind)
			}
		}
	}
	if len(kinds) < 100 {
		t.Errorf("the document has only %d components", len(kinds))
	}
	integers := 0
	var check func(at string, v any)
	check = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if v["type"] == "integer" {
				integers++
				max, bounded := v["maximum"].(uint64)
				if small := bounded && max <= math.MaxInt32; small == (v["format"] == "int64") {
					t.Errorf("%s has maximum %v and format %v; above 32 bits it needs int64", at, v["maximum"], v["format"])
				}
			}
			for name, of := range v {
				check(at+"/"+name, of)
			}
		case []any:
			for i, of := range v {
				check(at+"/"+strconv.Itoa(i), of)
			}
		}
	}
	check("", doc)
	if integers < 50 {
		t.Errorf("the document has only %d integers", integers)
	}
}

func sorted(codes []lockapi.Code) []string {
	var out []string
	for _, c := range codes {
		out = append(out, string(c))
	}
	slices.Sort(out)
	return out
}
