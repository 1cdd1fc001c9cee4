package page_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/page"
	"github.com/stoutlock/stout/internal/testrun"
)

// maxBytes is what all files weigh together at most: a person on a slow line waits for
// them.
const maxBytes = 96 << 10

// TestFilesAreTheirOwn: nothing that the policy forbids, and nothing that is elsewhere.
func TestFilesAreTheirOwn(t *testing.T) {
	total := 0
	for _, name := range page.Names() {
		f, _ := page.Find(name)
		text := string(f.Content)
		total += len(text)
		if len(text) == 0 || f.ETag == "" {
			t.Errorf("%s is empty", name)
		}
		for _, line := range strings.Split(text, "\n") {
			if strings.Contains(line, "://") && !strings.Contains(line, "http://www.w3.org/2000/svg") {
				t.Errorf("%s names another host: %s", name, line)
			}
		}
		for _, ban := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "createContextualFragment", "DOMParser", "localStorage", "document.cookie", "srcdoc"} {
			if strings.Contains(text, ban) {
				t.Errorf("%s has %s: what others chose is text", name, ban)
			}
		}
		if strings.HasSuffix(name, ".html") {
			checkDocument(t, name, text)
		}
	}
	if total > maxBytes {
		t.Errorf("the page weighs %d bytes, more than %d", total, maxBytes)
	}
	t.Logf("the page weighs %d bytes in %d files", total, len(page.Names()))
}

var inline = regexp.MustCompile(`(?i)<script(\s[^>]*)?>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:`)

func checkDocument(t *testing.T, name, text string) {
	t.Helper()
	if found := inline.FindString(text); found != "" {
		t.Errorf("%s has %q: neither script nor style is inline", name, found)
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(text, -1) {
		if _, ok := page.Find(m[1]); !ok && !strings.HasPrefix(m[1], "#") {
			t.Errorf("%s has %s, which is not there", name, m[1])
		}
	}
}

// TestImportsAreThere: each name that a module imports is one that the other exports,
// and is used. There is no build step that would say so.
func TestImportsAreThere(t *testing.T) {
	imports := regexp.MustCompile(`(?m)^import \{ ([^}]+) \} from '\./([^']+)';$`)
	for _, name := range page.Names() {
		if !strings.HasSuffix(name, ".js") {
			continue
		}
		f, _ := page.Find(name)
		text := string(f.Content)
		found := imports.FindAllStringSubmatch(text, -1)
		if n := strings.Count("\n"+text, "\nimport "); n != len(found) {
			t.Errorf("%s: %d of %d imports can be read", name, len(found), n)
		}
		rest := imports.ReplaceAllString(text, "")
		for _, m := range found {
			from, ok := page.Find(m[2])
			if !ok {
				t.Errorf("%s imports from %s, which is not there", name, m[2])
				continue
			}
			for _, one := range strings.Split(m[1], ", ") {
				exported := regexp.MustCompile(fmt.Sprintf(`(?m)^export (async )?(const|let|function|class) %s\b`, regexp.QuoteMeta(one)))
				if !exported.Match(from.Content) {
					t.Errorf("%s imports %s, which %s does not export", name, one, m[2])
				}
				if !regexp.MustCompile(`(^|[^\w$])` + regexp.QuoteMeta(one) + `\b`).MatchString(rest) {
					t.Errorf("%s imports %s and does not use it", name, one)
				}
			}
		}
	}
}

// evaluated is what an expression is in a module that has some names of the page's own
// ones, by node; without node the test is skipped.
func evaluated(t *testing.T, expressions map[string]string, imports string) map[string]string {
	t.Helper()
	testrun.E2E(t) // it takes node
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node here")
	}
	dir := t.TempDir()
	put := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range page.Names() {
		if strings.HasSuffix(name, ".js") {
			f, _ := page.Find(name)
			put(name, f.Content)
		}
	}
	put("package.json", []byte(`{"type": "module"}`))
	var code strings.Builder
	code.WriteString("globalThis.location = { href: 'http://here/ui/' };\nglobalThis.document = {};\n" + imports + "\n")
	for name, expression := range expressions {
		fmt.Fprintf(&code, "console.log(%q + '\t' + (%s));\n", name, expression)
	}
	put("run.js", []byte(code.String()))
	out, err := exec.Command(node, filepath.Join(dir, "run.js")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		got[name] = value
	}
	return got
}

// says checks what expressions are: pairs of one and what it is.
func says(t *testing.T, imports string, wants map[string]string) {
	t.Helper()
	asked := map[string]string{}
	for expression := range wants {
		asked[fmt.Sprint(len(asked))] = expression
	}
	for name, got := range evaluated(t, asked, imports) {
		if expression := asked[name]; got != wants[expression] {
			t.Errorf("%s\nis  %s\nnot %s", expression, got, wants[expression])
		}
	}
}

// TestWhatAReleaseLeaves: who has a lock after a release by force depends on who else holds it.
func TestWhatAReleaseLeaves(t *testing.T) {
	const next = `queue: [{session_name: 'next', mode: 'exclusive'}]`
	const some = `queue: [{session_name: 'a', mode: 'shared'}, {session_name: 'b', mode: 'shared'}, {session_name: 'c', mode: 'exclusive'}]`
	says(t, "const { freed, heirs } = await import('./words.js');", map[string]string{
		`heirs({waiters: 0, mode: 'exclusive'}, 0)`:                      "Nobody waits: the lock is free at once, without lock-delay.",
		`heirs({waiters: 0, mode: 'shared'}, 2)`:                         "Nobody waits; the 2 other holders still have it.",
		`heirs({waiters: 1, mode: 'exclusive', ` + next + `}, 0)`:        "next is next and gets the lock at once, without lock-delay.",
		`heirs({waiters: 1, mode: 'shared', ` + next + `}, 1)`:           "next is next, and still waits for the 1 other holder.",
		`heirs({waiters: 3, mode: 'exclusive', ` + some + `}, 0)`:        "a and the next 1 of those who wait get the lock at once, without lock-delay.",
		`heirs({waiters: 3, mode: 'shared', limit: 3, ` + some + `}, 2)`: "a is next and gets the lock at once, without lock-delay.",
		`heirs({waiters: 3, mode: 'shared'}, 1)`:                         "Who is first in the queue is next, without lock-delay.",
		`freed([])`:                                                      "It holds no lock.",
		`freed([{mode: 'exclusive'}])`:                                   "Its lock is free at once, without lock-delay; who waits gets it.",
		`freed([{mode: 'exclusive'}, {mode: 'exclusive'}])`:              "Its 2 locks are free at once, without lock-delay; who waits gets them.",
		`freed([{mode: 'shared'}]).includes('free at once')`:             "false",
		`freed([{mode: 'shared'}]).includes('these still have')`:         "true",
	})
}

// TestVerdict: a cell is not well with a replica that answers and hears no master.
func TestVerdict(t *testing.T) {
	const cell = `{master: {id: 'r1'}, lease: {held: true, term_ms: 2000}, replicas: [{id: 'r1', healthy: true, last_contact_ms: 0}, {id: 'r2', healthy: true, promise: {to: 'r1'}, last_contact_ms: 9000}, {id: 'r3', healthy: true, last_contact_ms: %d}]}`
	at := func(contact int) string {
		return fmt.Sprintf(`(Object.assign(store, {cell: `+cell+`, members: {tolerates: 1}}), verdict().join(': '))`, contact)
	}
	says(t, "const { verdict } = await import('./view-cell.js');\nconst { store } = await import('./store.js');", map[string]string{
		at(100):  "good: All replicas are well. One more replica may fail.",
		at(8000): "warn: r3 is not well. One more replica may fail.",
	})
}

// TestOfMembers: how far one is behind that is not well nobody knows, and without a master
// it is not said what the cell bears.
func TestOfMembers(t *testing.T) {
	const tell = `(store.members = {cell_id: 'c', tolerates: 0, members: %s}, text(membersView.draw()))`
	imports := `const { membersView } = await import('./view-cell.js');
const { store } = await import('./store.js');
const text = x => (x === null || x === undefined || x === false ? '' : Array.isArray(x) ? x.map(text).join('') : x.tag ? text(x.children) + '|' : String(x));`
	says(t, imports, map[string]string{
		fmt.Sprintf(tell, `[{id: 'r1', role: 'replica', healthy: false, version: 'v1', behind: 0, applied_index: 7}]`) + ".includes('hears no master')":    "true",
		fmt.Sprintf(tell, `[{id: 'r1', role: 'replica', healthy: false, version: 'v1', behind: 0, applied_index: 7}]`) + ".includes('is borne')":           "false",
		fmt.Sprintf(tell, `[{id: 'r1', role: 'replica', healthy: false, version: 'v1', behind: 0, applied_index: 7}]`) + ".includes('There is no master')": "true",
		fmt.Sprintf(tell, `[{id: 'r1', role: 'master', healthy: true}, {id: 'r2', healthy: false, behind: 1637}]`) + ".includes('behind')":                 "false",
		fmt.Sprintf(tell, `[{id: 'r1', role: 'master', healthy: true}, {id: 'r2', healthy: false, behind: 1637}]`) + ".includes('No further failure')":     "true",
	})
}

// TestAtLeast: a master that took office knows nothing of the keepalives before.
func TestAtLeast(t *testing.T) {
	const end = `{at: '2026-03-01T03:00:12Z', silent_ms: 12000}`
	says(t, "const { atLeast } = await import('./words.js');", map[string]string{
		`'<' + atLeast(` + end + `, [{type: 'master_changed', at: '2026-03-01T03:00:00.4Z'}]) + '>'`: "<at least >",
		`'<' + atLeast(` + end + `, [{type: 'master_changed', at: '2026-03-01T02:59:00Z'}]) + '>'`:   "<>",
	})
}
