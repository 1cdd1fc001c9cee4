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

// maxBytes limits the total size of the files, for people on slow lines.
const maxBytes = 108 << 10

// TestFilesAreTheirOwn: the files use nothing that the policy forbids, and name no other
// host.
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
				t.Errorf("%s has %s: show names that others chose as text only", name, ban)
			}
		}
		if strings.HasSuffix(name, ".html") {
			checkDocument(t, name, text)
		}
	}
	if total > maxBytes {
		t.Errorf("the page has %d bytes, more than %d", total, maxBytes)
	}
	t.Logf("the page has %d bytes in %d files", total, len(page.Names()))
}

var inline = regexp.MustCompile(`(?i)<script(\s[^>]*)?>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:`)

func checkDocument(t *testing.T, name, text string) {
	t.Helper()
	if found := inline.FindString(text); found != "" {
		t.Errorf("%s has %q: neither script nor style is inline", name, found)
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(text, -1) {
		if _, ok := page.Find(m[1]); !ok && !strings.HasPrefix(m[1], "#") {
			t.Errorf("%s has %s, which does not exist", name, m[1])
		}
	}
}

// TestImportsAreThere: each name that a module imports is exported and used. There is no
// build step that would find such errors.
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
				t.Errorf("%s imports from %s, which does not exist", name, m[2])
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

// evaluated returns the values of expressions by name. Node evaluates them in a module
// that imports names of the page. Without node the test is skipped.
func evaluated(t *testing.T, expressions map[string]string, imports string) map[string]string {
	t.Helper()
	testrun.E2E(t) // needs node
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
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

// equal checks the values of expressions, given by expression.
func equal(t *testing.T, imports string, wants map[string]string) {
	t.Helper()
	asked := map[string]string{}
	for expression := range wants {
		asked[fmt.Sprint(len(asked))] = expression
	}
	for name, got := range evaluated(t, asked, imports) {
		if expression := asked[name]; got != wants[expression] {
			t.Errorf("%s\ngot  %s\nwant %s", expression, got, wants[expression])
		}
	}
}

// TestWhatAReleaseLeaves: the holders of a lock after a release by force depend on its
// other holders.
func TestWhatAReleaseLeaves(t *testing.T) {
	const next = `queue: [{session_name: 'next', mode: 'exclusive'}]`
	const some = `queue: [{session_name: 'a', mode: 'shared'}, {session_name: 'b', mode: 'shared'}, {session_name: 'c', mode: 'exclusive'}]`
	equal(t, "const { afterRelease, freed } = await import('./words.js');", map[string]string{
		`afterRelease({waiters: 0, mode: 'exclusive'}, 0)`:                      "No session is waiting: the lock is free at once, without lock-delay.",
		`afterRelease({waiters: 0, mode: 'shared'}, 2)`:                         "No session is waiting; the 2 other holders still have it.",
		`afterRelease({waiters: 1, mode: 'exclusive', ` + next + `}, 0)`:        "next is next and gets the lock at once, without lock-delay.",
		`afterRelease({waiters: 1, mode: 'shared', ` + next + `}, 1)`:           "next is next, and still waits for the 1 other holder.",
		`afterRelease({waiters: 3, mode: 'exclusive', ` + some + `}, 0)`:        "a and the next request get the lock at once, without lock-delay.",
		`afterRelease({waiters: 3, mode: 'shared', limit: 3, ` + some + `}, 2)`: "a is next and gets the lock at once, without lock-delay.",
		`afterRelease({waiters: 3, mode: 'shared'}, 1)`:                         "The first in the queue is next, without lock-delay.",
		`freed([])`:                    "It holds no lock.",
		`freed([{mode: 'exclusive'}])`: "Its lock is free at once, without lock-delay; the next in the queue gets it.",
		`freed([{mode: 'exclusive'}, {mode: 'exclusive'}])`:          "Its 2 locks are free at once, without lock-delay; the next in each queue gets them.",
		`freed([{mode: 'shared'}]).includes('free at once')`:         "false",
		`freed([{mode: 'shared'}]).includes('Other holders keep a')`: "true",
	})
}

// TestVerdict: a cell is unhealthy if a replica answers but has no contact with the
// master.
func TestVerdict(t *testing.T) {
	const cell = `{master: {id: 'r1'}, lease: {held: true, term_ms: 2000}, replicas: [{id: 'r1', healthy: true, last_contact_ms: 0}, {id: 'r2', healthy: true, promise: {to: 'r1'}, last_contact_ms: 9000}, {id: 'r3', healthy: true, last_contact_ms: %d}]}`
	at := func(contact int) string {
		return fmt.Sprintf(`(Object.assign(store, {cell: `+cell+`, members: {tolerates: 1}}), verdict().join(': '))`, contact)
	}
	equal(t, "const { verdict } = await import('./view-cell.js');\nconst { store } = await import('./store.js');", map[string]string{
		at(100):  "good: All replicas are healthy. One more replica may fail.",
		at(8000): "warn: r3 is unhealthy. One more replica may fail.",
	})
}

// TestOfMembers: the page does not show how far an unhealthy member is behind, and
// without a master not how many failures the cell tolerates.
func TestOfMembers(t *testing.T) {
	const shown = `(store.members = {cell_id: 'c', tolerates: 0, members: %s}, text(membersView.draw()))`
	imports := `const { membersView } = await import('./view-cell.js');
const { store } = await import('./store.js');
const text = x => (x === null || x === undefined || x === false ? '' : Array.isArray(x) ? x.map(text).join('') : x.tag ? text(x.children) + '|' : String(x));`
	equal(t, imports, map[string]string{
		fmt.Sprintf(shown, `[{id: 'r1', role: 'replica', healthy: false, version: 'v1', behind: 0, applied_index: 7}]`) + ".includes('no contact with a master')": "true",
		fmt.Sprintf(shown, `[{id: 'r1', role: 'replica', healthy: false, version: 'v1', behind: 0, applied_index: 7}]`) + ".includes('tolerates')":                "false",
		fmt.Sprintf(shown, `[{id: 'r1', role: 'replica', healthy: false, version: 'v1', behind: 0, applied_index: 7}]`) + ".includes('There is no master')":       "true",
		fmt.Sprintf(shown, `[{id: 'r1', role: 'master', healthy: true}, {id: 'r2', healthy: false, behind: 1637}]`) + ".includes('behind')":                       "false",
		fmt.Sprintf(shown, `[{id: 'r1', role: 'master', healthy: true}, {id: 'r2', healthy: false, behind: 1637}]`) + ".includes('tolerates no further failure')": "true",
	})
}

// TestAtLeast: a new master does not know earlier keepalives.
func TestAtLeast(t *testing.T) {
	const end = `{at: '2026-03-01T03:00:12Z', silent_ms: 12000}`
	equal(t, "const { atLeast } = await import('./words.js');", map[string]string{
		`'<' + atLeast(` + end + `, [{type: 'master_changed', at: '2026-03-01T03:00:00.4Z'}]) + '>'`: "<at least >",
		`'<' + atLeast(` + end + `, [{type: 'master_changed', at: '2026-03-01T02:59:00Z'}]) + '>'`:   "<>",
	})
}
