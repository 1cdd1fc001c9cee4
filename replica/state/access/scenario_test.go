package access_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/replica/state/access"
)

var rewrite = flag.Bool("rewrite", false, "record what the scenarios give now")

// TestScenarios plays testdata/*.txt: one file per promise, with the promise in the first
// comment. Each line changes or queries the policy; its answer follows " -> ". -rewrite
// records the answers again, to be reviewed as a diff.
//
//	rule PATH [read=LIST] [lock=LIST] [write=LIST] [admin=LIST]
//	drop-rule PATH
//	group NAME [MEMBER…]
//	drop-group NAME
//	cell [observe=LIST] [operate=LIST]
//	may PRINCIPAL PATH          the principal's permissions, with the rule of each
//	cell-of PRINCIPAL           whether the principal may observe and operate
//
// Commas separate the entries of a LIST; an empty LIST admits no principal.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, out := access.New(), strings.Builder{}
			for line := range strings.Lines(string(data)) {
				line, _, _ = strings.Cut(strings.TrimRight(line, "\n"), " -> ")
				out.WriteString(line)
				if line != "" && !strings.HasPrefix(line, "#") {
					var said string
					if p, said = play(t, p, strings.Fields(line)); said != "" {
						out.WriteString(" -> " + said)
					}
				}
				out.WriteByte('\n')
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got := out.String(); got != string(data) {
				t.Errorf("%s now gives (-rewrite records it again):\n%s", file, got)
			}
		})
	}
}

// play executes one line.
func play(t *testing.T, p *access.Policy, w []string) (*access.Policy, string) {
	t.Helper()
	switch w[0] {
	case "rule":
		r := &access.Rule{Path: w[1], Lists: map[access.Permission][]string{}}
		for _, perm := range access.Permissions {
			if list, named := named(w[2:], perm.String()); named {
				r.Lists[perm] = list
			}
		}
		if !r.Sound() {
			return p, "refused"
		}
		return changed(p)(p.PutRule(r))
	case "drop-rule":
		return p.DropRule(w[1]), ""
	case "group":
		g := &access.Members{Group: w[1], Members: w[2:]}
		if !g.Sound() {
			return p, "refused"
		}
		return changed(p)(p.PutGroup(g))
	case "drop-group":
		return p.DropGroup(w[1]), ""
	case "cell":
		observe, _ := named(w[1:], "observe")
		operate, _ := named(w[1:], "operate")
		return p.PutCell(access.CellRules{Observe: observe, Operate: operate}), ""
	case "may":
		return p, mayText(p, w[1], w[2])
	case "cell-of":
		return p, fmt.Sprintf("observes %v, operates %v", p.Observes(w[1]), p.Operates(w[1]))
	}
	t.Fatalf("unknown line %q", w)
	return nil, ""
}

// named returns the list after name= among the words.
func named(words []string, name string) ([]string, bool) {
	for _, w := range words {
		if list, ok := strings.CutPrefix(w, name+"="); ok {
			return strings.FieldsFunc(list, func(r rune) bool { return r == ',' }), true
		}
	}
	return nil, false
}

func changed(was *access.Policy) func(*access.Policy, error) (*access.Policy, string) {
	return func(p *access.Policy, err error) (*access.Policy, string) {
		if err != nil {
			return was, err.Error()
		}
		return p, ""
	}
}

func mayText(p *access.Policy, who, path string) string {
	var out []string
	for _, perm := range access.Permissions {
		d := p.May(who, perm, path)
		word := "not " + perm.String()
		if d.Allowed {
			word = perm.String()
		}
		if d.Rule != nil {
			word += " by " + d.Rule.Path
		}
		out = append(out, word)
	}
	return strings.Join(out, ", ")
}
