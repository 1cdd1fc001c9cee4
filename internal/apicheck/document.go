package apicheck

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
)

// Document is a valid OpenAPI document.
type Document struct {
	spec *openapi3.T
}

// Load reads and validates a document in YAML. It closes object schemas that
// leave open whether there may be further properties. A client must ignore
// fields that it does not know, but the server under test must send no field
// that the document lacks.
func Load(yaml []byte) (*Document, error) {
	loader := openapi3.NewLoader()
	spec, err := loader.LoadFromData(yaml)
	if err != nil {
		return nil, err
	}
	if err := spec.Validate(context.Background()); err != nil {
		return nil, err
	}
	closed := false
	for _, schema := range spec.Components.Schemas {
		if s := schema.Value; len(s.Properties) > 0 && s.AdditionalProperties.Schema == nil && s.AdditionalProperties.Has == nil {
			s.AdditionalProperties.Has = &closed
		}
	}
	return &Document{spec}, nil
}

// Operation is one method of one path.
type Operation struct {
	ID, Method, Path string
	Successes        []string        // documented statuses below 300
	Query            map[string]bool // query parameters: true for required ones
}

// Operations returns all operations, sorted by path and method.
func (d *Document) Operations() []Operation {
	var all []Operation
	for _, path := range slices.Sorted(maps.Keys(d.spec.Paths.Map())) {
		operations := d.spec.Paths.Value(path).Operations()
		for _, method := range slices.Sorted(maps.Keys(operations)) {
			o := Operation{ID: operations[method].OperationID, Method: method, Path: path}
			o.Query = query(d.spec.Paths.Value(path).Parameters, operations[method].Parameters)
			for _, status := range slices.Sorted(maps.Keys(operations[method].Responses.Map())) {
				if strings.HasPrefix(status, "2") {
					o.Successes = append(o.Successes, status)
				}
			}
			all = append(all, o)
		}
	}
	return all
}

func query(all ...openapi3.Parameters) map[string]bool {
	found := map[string]bool{}
	for _, p := range slices.Concat(all...) {
		if p.Value.In == openapi3.ParameterInQuery {
			found[p.Value.Name] = p.Value.Required
		}
	}
	return found
}

// route finds the operation of a request. The last parameter of a template
// takes the rest of the path, including slashes, as a lock's path does; it may
// be empty. A template without parameters precedes one with parameters, and a
// longer one precedes a shorter one.
func (d *Document) route(r *http.Request) (*routers.Route, map[string]string, error) {
	var best string
	var params map[string]string
	for path := range d.spec.Paths.Map() {
		if got, ok := match(path, r.URL.EscapedPath()); ok && d.spec.Paths.Value(path).GetOperation(r.Method) != nil {
			if best == "" || strings.Count(path, "{") < strings.Count(best, "{") || len(path) > len(best) {
				best, params = path, got
			}
		}
	}
	if best == "" {
		return nil, nil, fmt.Errorf("the document has no operation for %s %s", r.Method, r.URL.EscapedPath())
	}
	item := d.spec.Paths.Value(best)
	return &routers.Route{
		Spec: d.spec, Path: best, PathItem: item, Method: r.Method, Operation: item.GetOperation(r.Method),
	}, params, nil
}

// match matches a path against a template such as /v1/sessions/{id}/keepalive.
func match(template, path string) (map[string]string, bool) {
	params := map[string]string{}
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	for i, w := range want {
		switch {
		case i >= len(got):
			return nil, false
		case strings.HasPrefix(w, "{"):
			value := got[i]
			if i == len(want)-1 {
				value = strings.Join(got[i:], "/")
				got = got[:i+1]
			}
			plain, err := url.PathUnescape(value)
			if err != nil || plain == "" && i < len(want)-1 {
				return nil, false
			}
			params[strings.Trim(w, "{}")] = plain
		case w != got[i]:
			return nil, false
		}
	}
	return params, len(want) == len(got)
}
