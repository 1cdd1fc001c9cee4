package docs

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// defaults lists the sentences that name a default of the contract. The group of each
// pattern matches the figure.
var defaults = []struct{ file, pattern, figure string }{
	{"docs/sizing.md", `\*\*The ttl of sessions\*\* \((\d+) s unless set\)`, seconds(lockapi.DefaultTTLMS)},
	{"docs/faq.md", `session has expired: the ttl, (\d+) s\b`, seconds(lockapi.DefaultTTLMS)},
	{"client/options.go", `the default is\n// (\d+) s`, seconds(lockapi.DefaultTTLMS)},
	{"lockapi/openapi.in.yaml", `ttl_ms:(?:\n {16}.*)*?\n {16}default: (\d+)`, fmt.Sprint(lockapi.DefaultTTLMS)},
}

func seconds(ms int) string { return fmt.Sprint(ms / 1000) }

// TestDefaults: pages, comments and the OpenAPI document have the defaults of the
// contract. -update writes them.
func TestDefaults(t *testing.T) {
	for _, d := range defaults {
		text := read(t, d.file)
		at := regexp.MustCompile(d.pattern).FindStringSubmatchIndex(text)
		if at == nil {
			t.Errorf("%s has no sentence like %q", d.file, d.pattern)
			continue
		}
		from, to := at[2], at[3]
		switch found := text[from:to]; {
		case found == d.figure:
		case *update:
			write(t, d.file, text[:from]+d.figure+text[to:])
		default:
			t.Errorf("%s says %s, the contract %s: go test ./internal/docs -run TestDefaults -update", d.file, found, d.figure)
		}
	}
}
