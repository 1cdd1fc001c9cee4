package docs

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/goccy/go-yaml"

	"github.com/stoutlock/stout/lockapi"
)

const httpPage = "docs/http.md"

// TestHTTPPage: docs/http.md is the OpenAPI document as a page. -update writes it.
func TestHTTPPage(t *testing.T) {
	var spec yaml.MapSlice
	must(t, yaml.UnmarshalWithOptions(lockapi.OpenAPI(), &spec, yaml.UseOrderedMap()))
	page := newReference(spec).page()
	if *update {
		write(t, httpPage, page)
	}
	if read(t, httpPage) != page {
		t.Errorf("%s is out of date: go test ./internal/docs -run TestHTTPPage -update", httpPage)
	}
	headings := map[string]int{}
	for _, found := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		headings[anchor(found[1])]++
	}
	for heading, n := range headings {
		if n > 1 {
			t.Errorf("%d headings have the anchor %s", n, heading)
		}
	}
	for _, found := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(page, -1) {
		if headings[found[1]] == 0 {
			t.Errorf("the page links to #%s, which no heading has", found[1])
		}
	}
	for _, id := range regexp.MustCompile(`operationId: (\w+)`).FindAllSubmatch(lockapi.OpenAPI(), -1) {
		if !strings.Contains(page, "`"+string(id[1])+"`") {
			t.Errorf("the page lacks %s", id[1])
		}
	}
}

// reference writes an OpenAPI document as a page.
type reference struct {
	spec  yaml.MapSlice
	codes []string // of errors
	out   strings.Builder
	types map[string]bool // named types that the page links to
	used  map[string]int  // how many operations have a parameter, by its component
}

// common is the least number of operations that makes a parameter of theirs common.
const common = 4

// usual are the errors of nearly every call.
var usual = []string{"400", "401", "403", "421", "429", "503"}

func newReference(spec yaml.MapSlice) *reference {
	r := &reference{spec: spec, types: map[string]bool{}, used: map[string]int{}}
	for _, code := range list(at(spec, "components", "schemas", "Code", "enum")) {
		r.codes = append(r.codes, code.(string))
	}
	return r
}

// operation is one method of one path.
type operation struct {
	method, path string
	parameters   []any
	body         yaml.MapSlice
}

func (r *reference) page() string {
	byTag, tags := map[string][]operation{}, list(at(r.spec, "tags"))
	for _, path := range at(r.spec, "paths").(yaml.MapSlice) {
		shared := list(at(path.Value, "parameters"))
		for _, method := range path.Value.(yaml.MapSlice) {
			if body, ok := method.Value.(yaml.MapSlice); ok {
				tag := list(at(body, "tags"))[0].(string)
				o := operation{strings.ToUpper(method.Key.(string)), path.Key.(string), slices.Concat(shared, list(at(body, "parameters"))), body}
				byTag[tag] = append(byTag[tag], o)
				for _, p := range o.parameters {
					_, name := r.resolve(p)
					r.used[name]++
				}
			}
		}
	}
	r.line("# HTTP reference\n")
	r.prose("", "Each call of the API. This page is made from [`openapi.in.yaml`](../lockapi/openapi.in.yaml) by `go test ./internal/docs -run TestHTTPPage -update`; each replica serves the whole document at `/v1/openapi.yaml`. [usage.md](usage.md) shows calls with `curl`, [writing-a-client.md](writing-a-client.md) has the rules for clients.")
	r.line("## Calls\n\n| call | |\n| --- | --- |")
	for _, tag := range tags {
		for _, o := range byTag[text(tag, "name")] {
			r.line(fmt.Sprintf("| `%s %s` | [%s](#%s) |", o.method, o.path, text(o.body, "summary"), anchor(text(o.body, "summary"))))
		}
	}
	r.line("\n## Conventions\n")
	r.prose("", text(at(r.spec, "info"), "description"))
	r.line("These headers come with answers:\n")
	for _, h := range at(r.spec, "components", "headers").(yaml.MapSlice) {
		if name := headerName(h.Key.(string)); name != "" {
			r.prose("- ", "`"+name+"`: "+text(h.Value, "description"))
		}
	}
	r.line("\n## Common parameters\n")
	for _, p := range mapOf(at(r.spec, "components", "parameters")) {
		if r.used[p.Key.(string)] >= common {
			r.parameter(mapOf(p.Value))
		}
	}
	r.line("")
	for _, tag := range tags {
		r.line("## Calls: " + text(tag, "name") + "\n")
		r.prose("", text(tag, "description"))
		for _, o := range byTag[text(tag, "name")] {
			r.operation(o)
		}
	}
	r.errors()
	r.schemas()
	return strings.TrimRight(r.out.String(), "\n") + "\n"
}

func (r *reference) operation(o operation) {
	r.line("### " + text(o.body, "summary") + "\n")
	r.line(fmt.Sprintf("`%s %s` (`%s`)\n", o.method, o.path, text(o.body, "operationId")))
	r.prose("", text(o.body, "description"))
	if len(o.parameters) > 0 {
		r.line("Parameters:\n")
		var shared []string
		for _, p := range o.parameters {
			p, component := r.resolve(p)
			if component != "" && r.used[component] >= common {
				shared = append(shared, "`"+text(p, "name")+"`")
				continue
			}
			r.parameter(p)
		}
		if len(shared) > 0 {
			r.prose("- ", strings.Join(shared, ", ")+": see [Common parameters](#common-parameters).")
		}
		r.line("")
	}
	if body := at(o.body, "requestBody"); body != nil {
		body, _ := r.resolve(body)
		r.body(body)
	}
	r.line("Answers:\n")
	var failures []string
	for _, answer := range at(o.body, "responses").(yaml.MapSlice) {
		status := fmt.Sprint(answer.Key)
		resolved, _ := r.resolve(answer.Value)
		if status >= "4" { // also "default"
			if status != "default" {
				failures = append(failures, status+" "+strings.Join(r.codesOf(text(resolved, "description")), ", "))
			}
			continue
		}
		what := text(resolved, "description")
		for _, content := range mapOf(at(resolved, "content")) {
			what += " " + kindOf(content.Key.(string))
			if schema := at(content.Value, "schema"); len(mapOf(schema)) > 0 { // without one, the media type says all
				what += ": " + r.kind(schema)
			}
			what += "."
		}
		var headers []string
		for _, h := range mapOf(at(resolved, "headers")) {
			if !slices.Contains([]string{"Stout-Epoch", "Stout-Master", "Stout-Cell"}, h.Key.(string)) {
				headers = append(headers, "`"+h.Key.(string)+"`")
			}
		}
		if len(headers) > 0 {
			what += " Headers: " + strings.Join(headers, ", ") + "."
		}
		r.prose("- ", "**"+status+"**: "+what)
	}
	slices.Sort(failures)
	others := slices.DeleteFunc(slices.Clone(failures), func(f string) bool { return slices.Contains(usual, f[:3]) })
	if len(failures)-len(others) == len(usual) {
		failures = append([]string{"[the usual ones](#errors)"}, others...)
	}
	if len(failures) > 0 {
		r.prose("- ", "Errors: "+strings.Join(failures, "; ")+".")
	}
	r.line("")
}

func (r *reference) parameter(p yaml.MapSlice) {
	r.field("- ", text(p, "name"), text(p, "in"), at(p, "schema"), at(p, "required") == true, true, text(p, "description"))
}

func (r *reference) body(body yaml.MapSlice) {
	for i, content := range mapOf(at(body, "content")) {
		if i > 0 {
			break // the same for any other type
		}
		schema, name := r.resolve(at(content.Value, "schema"))
		need := "optional"
		if at(body, "required") == true {
			need = "required"
		}
		head := fmt.Sprintf("Body (%s, %s)", kindOf(content.Key.(string)), need)
		fields := mapOf(at(schema, "properties"))
		switch {
		case name != "" && len(fields) > 0:
			r.prose("", head+": "+r.kind(at(content.Value, "schema"))+". "+text(body, "description"))
		case len(fields) > 0:
			r.line(head + ":\n")
			r.fields("", schema, true)
			r.line("")
		default:
			r.prose("", head+". "+text(body, "description"))
		}
		if example := at(content.Value, "example"); example != nil {
			r.line("```json\n" + compact(example) + "\n```\n")
		}
	}
}

// fields lists the fields of an object. Required fields are marked in a request, and
// optional ones in an answer.
func (r *reference) fields(indent string, schema any, request bool) {
	required := list(at(schema, "required"))
	for _, p := range mapOf(at(schema, "properties")) {
		r.field(indent+"- ", p.Key.(string), "", p.Value, slices.Contains(required, p.Key), request, text(p.Value, "description"))
		inner, name := r.resolve(p.Value)
		if at(inner, "items") != nil && name == "" {
			inner, name = r.resolve(at(inner, "items"))
		}
		if name == "" {
			r.fields(indent+"  ", inner, request)
		}
	}
}

func (r *reference) field(bullet, name, where string, schema any, required, request bool, description string) {
	var notes []string
	if where != "" {
		notes = append(notes, where)
	}
	notes = append(notes, r.kind(schema))
	resolved, _ := r.resolve(schema)
	if v := at(resolved, "default"); v != nil && v != "" {
		notes = append(notes, fmt.Sprintf("default `%v`", v))
	}
	switch {
	case required && request:
		notes = append(notes, "required")
	case !required && !request:
		notes = append(notes, "optional")
	}
	if description == "" && len(mapOf(at(resolved, "properties"))) == 0 {
		description = text(resolved, "description")
	}
	line := fmt.Sprintf("`%s` (%s)", name, strings.Join(notes, ", "))
	if description != "" {
		line += ": " + description
	}
	r.prose(bullet, line)
}

// kind describes a schema in a few words, and links to named objects.
func (r *reference) kind(schema any) string {
	s, name := r.resolve(schema)
	if name != "" && (len(mapOf(at(s, "properties"))) > 0 || at(s, "oneOf") != nil || name == "EventStream") {
		r.types[name] = true
		return "[" + name + "](#" + anchor(name) + ")"
	}
	for _, choice := range []string{"oneOf", "anyOf"} {
		if all := list(at(s, choice)); all != nil {
			kinds := make([]string, len(all))
			for i, one := range all {
				kinds[i] = r.kind(one)
			}
			return strings.Join(kinds, " or ")
		}
	}
	if all := list(at(s, "enum")); all != nil {
		values := make([]string, len(all))
		for i, v := range all {
			values[i] = fmt.Sprintf("`%v`", v)
		}
		return strings.Join(values, " or ")
	}
	kinds := []string{fmt.Sprint(at(s, "type"))}
	if of := list(at(s, "type")); of != nil {
		kinds = kinds[:0]
		for _, one := range of {
			kinds = append(kinds, fmt.Sprint(one))
		}
	}
	kind := strings.Join(kinds, " or ")
	switch kind {
	case "array":
		kind = "list of " + r.kind(at(s, "items"))
		if most := at(s, "maxItems"); most != nil {
			kind += fmt.Sprintf(", at most %v", most)
		}
	case "object":
		if of, _ := r.resolve(at(s, "additionalProperties")); of != nil {
			kind = "object of " + r.kind(of) + "s"
		}
	case "integer":
		least, most := at(s, "minimum"), at(s, "maximum")
		const safe = "9007199254740991" // 2^53-1, of all such numbers
		switch {
		case most != nil && fmt.Sprint(most) != safe:
			kind = fmt.Sprintf("%v to %v", least, most)
		case least != nil && fmt.Sprint(least) != "0":
			kind = fmt.Sprintf("integer from %v", least)
		}
	case "string":
		if most := at(s, "maxLength"); most != nil {
			kind += fmt.Sprintf(" up to %v", most)
		} else if text(s, "format") == "date-time" {
			kind = "time"
		} else if text(s, "format") == "binary" {
			kind = "bytes"
		}
	}
	return kind
}

// errors lists the responses to failed calls.
func (r *reference) errors() {
	r.line("## Errors\n")
	r.prose("", "A failed call is answered with a [Problem](#problem). These are the statuses, each with its values of `code`:")
	r.types["Problem"] = true
	statuses := map[string]map[string]bool{} // by response
	for _, path := range mapOf(at(r.spec, "paths")) {
		for _, method := range mapOf(path.Value) {
			for _, answer := range mapOf(at(method.Value, "responses")) {
				if _, name := r.resolve(answer.Value); name != "" {
					if statuses[name] == nil {
						statuses[name] = map[string]bool{}
					}
					statuses[name][fmt.Sprint(answer.Key)] = true
				}
			}
		}
	}
	var lines []string
	for _, response := range mapOf(at(r.spec, "components", "responses")) {
		status := strings.Join(slices.Sorted(maps.Keys(statuses[response.Key.(string)])), ", ")
		status = strings.ReplaceAll(status, "default", "any other")
		if status != "" {
			lines = append(lines, "**"+status+"**: "+text(response.Value, "description"))
		}
	}
	slices.Sort(lines)
	for _, line := range slices.Compact(lines) {
		r.prose("- ", line)
	}
	r.line("")
	r.prose("", "The usual errors are those with the statuses "+strings.Join(usual, ", ")+".")
}

// schemas lists the named types that the page links to, directly or by another type.
func (r *reference) schemas() {
	r.line("## Types\n")
	r.prose("", "A field that is not always present is optional. A client ignores fields that it does not know.")
	from, done := r.out.Len(), map[string]string{}
	for len(done) < len(r.types) {
		for _, name := range slices.Sorted(maps.Keys(r.types)) {
			if done[name] != "" {
				continue
			}
			schema := at(r.spec, "components", "schemas", name)
			r.line("### " + name + "\n")
			r.prose("", text(schema, "description"))
			switch {
			case at(schema, "oneOf") != nil:
				r.prose("", "One of "+r.kind(yaml.MapSlice{{Key: "oneOf", Value: at(schema, "oneOf")}})+".")
			case at(schema, "items") != nil:
				r.prose("", "Each is "+r.kind(at(schema, "items"))+".")
			default:
				r.fields("", schema, at(schema, "additionalProperties") == false)
				r.line("")
			}
			done[name] = r.out.String()[from:]
			before := r.out.String()[:from]
			r.out.Reset()
			r.out.WriteString(before)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(done)) {
		r.out.WriteString(done[name])
	}
}

// codesOf returns the codes of errors that a description names.
func (r *reference) codesOf(description string) (codes []string) {
	for _, found := range quotedSpan.FindAllStringSubmatch(description, -1) {
		if slices.Contains(r.codes, found[1]) && !slices.Contains(codes, "`"+found[1]+"`") {
			codes = append(codes, "`"+found[1]+"`")
		}
	}
	return codes
}

// resolve follows a reference, and returns its last name. A field beside the reference
// replaces the target's field.
func (r *reference) resolve(v any) (yaml.MapSlice, string) {
	m := mapOf(v)
	target, ok := at(m, "$ref").(string)
	if !ok {
		return m, ""
	}
	parts := strings.Split(strings.TrimPrefix(target, "#/"), "/")
	found := mapOf(at(r.spec, parts...))
	merged := slices.Clone(m)
	for _, item := range found {
		if at(m, item.Key.(string)) == nil {
			merged = append(merged, item)
		}
	}
	return merged, parts[len(parts)-1]
}

func (r *reference) line(text string) { r.out.WriteString(text + "\n") }

// prose wraps text at 100 columns behind a bullet, or as paragraphs without one.
func (r *reference) prose(bullet, text string) {
	indent := strings.Repeat(" ", len(bullet))
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		start := indent
		if i == 0 {
			start = bullet
		} else if bullet != "" {
			r.line("")
		}
		line := start
		for _, word := range strings.Fields(paragraph) {
			if line != start && line != indent && len([]rune(line))+1+len([]rune(word)) > 100 {
				r.line(line)
				line = indent
			}
			if line != start && line != indent {
				line += " "
			}
			line += word
		}
		if strings.TrimSpace(line) != "" {
			r.line(line)
		}
		if bullet == "" && paragraph != "" {
			r.line("")
		}
	}
}

// at returns the value below keys, or nil.
func at(v any, keys ...string) any {
	for _, key := range keys {
		found := false
		for _, item := range mapOf(v) {
			if fmt.Sprint(item.Key) == key {
				v, found = item.Value, true
				break
			}
		}
		if !found {
			return nil
		}
	}
	return v
}

func mapOf(v any) yaml.MapSlice {
	m, _ := v.(yaml.MapSlice)
	return m
}

func list(v any) []any {
	all, _ := v.([]any)
	return all
}

func text(v any, key string) string {
	s, _ := at(v, key).(string)
	return strings.TrimSpace(s)
}

// kindOf names a media type for people.
func kindOf(media string) string {
	if media == "application/json" {
		return "JSON"
	}
	return "`" + media + "`"
}

// anchor is the link target of a heading, as GitHub makes it.
func anchor(heading string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case unicode.IsLetter(c) || unicode.IsDigit(c) || c == '-' || c == '_':
			return unicode.ToLower(c)
		case c == ' ':
			return '-'
		}
		return -1
	}, heading)
}

// headerName is the name of a header by its component, or empty for headers of the web
// page.
func headerName(component string) string {
	name := strings.TrimSuffix(component, "Header")
	switch name {
	case "Page", "PageETag":
		return ""
	case "ETag", "Location", "Allow":
		return name
	case "LastModified":
		return "Last-Modified"
	case "RetryAfter":
		return "Retry-After"
	}
	return "Stout-" + name
}

// compact writes a value as one line of JSON, in the order of its fields.
func compact(v any) string {
	switch v := v.(type) {
	case yaml.MapSlice:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = fmt.Sprintf("%q: %s", fmt.Sprint(item.Key), compact(item.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = compact(item)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
