//go:build unix

package consul

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
)

var rewrite = flag.Bool("rewrite", false, "with STOUT_TEST_CONSUL: record the answers in testdata/answers.txt")

const answersFile = "testdata/answers.txt"

// exchange is a request and Consul's answer to it.
type exchange struct {
	before  string // comments and empty lines
	line    string // method and path
	body    string
	differs string // how the door's answer differs; empty if it is the same
	status  int
	answer  string
}

// parsed are texts of errors by which clients decide what to do.
var parsed = []string{"invalid session", "Invalid Session TTL", "not found", "Missing key name", "Conflicting flags", "too large", "No path to datacenter"}

// TestAnswers makes the requests of testdata/answers.txt in order, and compares
// the answers with the ones in the file, which a real Consul gave. It compares
// the texts of errors as far as clients parse them.
func TestAnswers(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	all := readExchanges(t)
	c := &caller{addr: serve(t), names: map[string]string{}, modified: map[string]uint64{}}
	got := make([]exchange, len(all))
	for i, x := range all {
		got[i] = x
		got[i].status, got[i].answer = c.call(t, x)
	}
	if withConsul() && *rewrite {
		var b strings.Builder
		for _, x := range got {
			x.writeTo(&b)
		}
		must(t, os.WriteFile(answersFile, []byte(b.String()), 0o644))
		return
	}
	for i, want := range all {
		same := want.status == got[i].status
		if same && want.status < 400 || want.status == http.StatusConflict {
			same = same && want.answer == got[i].answer
		}
		for _, text := range parsed {
			same = same && (!strings.Contains(want.answer, text) || strings.Contains(got[i].answer, text))
		}
		if differs := want.differs != "" && !withConsul(); same == differs {
			t.Errorf("%s\n%s\nConsul: %d %s\n   got: %d %s\n(noted as different: %q)", want.line, want.body, want.status, want.answer, got[i].status, got[i].answer, want.differs)
		}
	}
}

// caller makes the requests, and gives names to what is random in the answers.
type caller struct {
	addr     string
	names    map[string]string // of sessions' ids and of the node
	sessions int
	modified map[string]uint64 // the latest ModifyIndex seen of each key and session
}

var (
	sizes    = regexp.MustCompile(`\$bytes\((\d+)\)`)
	number   = regexp.MustCompile(`index \d+`)
	modifies = regexp.MustCompile(`\$modified\(([^)]*)\)`)
)

// call makes one request. In it, $S1 is the id of the first session, $NODE the
// name of the node, $modified(KEY) the key's ModifyIndex, and $bytes(N) a value
// of N bytes.
func (c *caller) call(t *testing.T, x exchange) (int, string) {
	t.Helper()
	fill := func(s string) string {
		for id, name := range c.names {
			s = strings.ReplaceAll(s, "$"+name, id)
		}
		s = modifies.ReplaceAllStringFunc(s, func(m string) string {
			return strconv.FormatUint(c.modified[modifies.FindStringSubmatch(m)[1]], 10)
		})
		return sizes.ReplaceAllStringFunc(s, func(m string) string {
			n, _ := strconv.Atoi(sizes.FindStringSubmatch(m)[1])
			return strings.Repeat("x", n)
		})
	}
	method, path, _ := strings.Cut(x.line, " ")
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+c.addr+fill(path), strings.NewReader(fill(x.body)))
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", x.line, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", x.line, err)
	}
	if index := resp.Header.Get("X-Consul-Index"); index != "" {
		if n, err := strconv.ParseUint(index, 10, 64); err != nil || n == 0 {
			t.Errorf("%s: X-Consul-Index %q", x.line, index)
		}
	} else if method == http.MethodGet && resp.StatusCode == http.StatusOK && strings.HasPrefix(path, "/v1/kv/") {
		t.Errorf("%s: no X-Consul-Index", x.line)
	}
	var created struct{ ID string }
	if json.Unmarshal(body, &created) == nil && created.ID != "" {
		c.sessions++
		c.names[created.ID] = fmt.Sprint("S", c.sessions)
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	text := string(body)
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && decoder.Decode(&value) == nil {
		c.compareIndexes(value)
		if txn, ok := value.(map[string]any); ok && strings.HasPrefix(path, "/v1/txn") { // some have fields of queries as well
			value = map[string]any{"Results": txn["Results"], "Errors": txn["Errors"]}
		}
		compact, err := json.Marshal(value)
		must(t, err)
		text = string(compact)
	}
	for id, name := range c.names {
		text = strings.ReplaceAll(text, id, name)
	}
	return resp.StatusCode, strings.TrimSpace(number.ReplaceAllString(text, "index N"))
}

// compareIndexes replaces the indexes in an answer: each gets its rank among the
// answer's indexes, and a ModifyIndex a + if it is above the latest one seen of
// the key or session. It also learns the node's name.
func (c *caller) compareIndexes(value any) {
	var entries []map[string]any
	var find func(any)
	find = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, element := range v {
				find(element)
			}
		case map[string]any:
			if _, ok := v["ModifyIndex"]; ok {
				entries = append(entries, v)
			}
			for _, field := range v {
				find(field)
			}
		}
	}
	find(value)
	index := func(entry map[string]any, name string) uint64 {
		number, _ := entry[name].(json.Number)
		n, _ := strconv.ParseUint(number.String(), 10, 64)
		return n
	}
	var order []uint64
	for _, e := range entries {
		order = append(order, index(e, "CreateIndex"), index(e, "ModifyIndex"))
	}
	slices.Sort(order)
	order = slices.Compact(order)
	rank := func(n uint64) string { return strconv.Itoa(slices.Index(order, n) + 1) }
	for _, e := range entries {
		name, _ := cmp.Or(e["Key"], e["ID"]).(string)
		if node, ok := e["Node"].(string); ok && node != "" {
			c.names[node] = "NODE"
		}
		created, modified := index(e, "CreateIndex"), index(e, "ModifyIndex")
		e["CreateIndex"], e["ModifyIndex"] = rank(created), rank(modified)
		if modified > c.modified[name] {
			e["ModifyIndex"] = rank(modified) + "+"
		}
		c.modified[name] = modified
	}
}

// readExchanges reads the file. A request begins with "> ", the answer to it
// with "< ". A line with "! " is a known difference of the door's answer.
func readExchanges(t *testing.T) (all []exchange) {
	t.Helper()
	content, err := os.ReadFile(answersFile)
	must(t, err)
	var before string
	to := &before
	for line := range strings.Lines(string(content)) {
		text := strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(text, "> "):
			all = append(all, exchange{before: before, line: text[2:]})
			before, to = "", &all[len(all)-1].body
		case strings.HasPrefix(text, "! "):
			all[len(all)-1].differs = text[2:]
		case strings.HasPrefix(text, "< "):
			x := &all[len(all)-1]
			if x.status, err = strconv.Atoi(text[2:]); err != nil {
				t.Fatal(err)
			}
			to = &x.answer
		case text == "" || strings.HasPrefix(text, "#"):
			before += line
		default:
			*to += line
		}
	}
	for i := range all {
		all[i].body, all[i].answer = strings.TrimSuffix(all[i].body, "\n"), strings.TrimSuffix(all[i].answer, "\n")
	}
	return all
}

func (x exchange) writeTo(b *strings.Builder) {
	fmt.Fprintf(b, "%s> %s\n", x.before, x.line)
	if x.body != "" {
		fmt.Fprintln(b, x.body)
	}
	if x.differs != "" {
		fmt.Fprintln(b, "!", x.differs)
	}
	fmt.Fprintln(b, "<", x.status)
	if x.answer != "" {
		fmt.Fprintln(b, x.answer)
	}
}
