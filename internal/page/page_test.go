package page_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stoutlock/stout/internal/page"
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
