package mutants_test

import (
	"strings"
	"testing"

	"github.com/stoutlock/stout/test/cell"
	"github.com/stoutlock/stout/test/internal/overlay"
	"github.com/stoutlock/stout/test/sim/mutants"
)

// TestList checks that the list says what it has to, and that each fault can be
// put where it says.
func TestList(t *testing.T) {
	root := moduleRoot(t)
	named, edited := map[string]bool{}, map[overlay.Edit]string{}
	for _, m := range mutants.All() {
		if named[m.Name] || m.Name == "" {
			t.Errorf("%q is not a name of its own", m.Name)
		}
		named[m.Name] = true
		if m.Section == "" || m.Rule == "" || m.Shows == "" {
			t.Errorf("%s does not say which rule it breaks, where that stands, or what shows it", m.Name)
		}
		if twin, ok := edited[m.Edit]; ok {
			t.Errorf("%s is %s again", m.Name, twin)
		}
		edited[m.Edit] = m.Name
		if _, err := overlay.Mutated(overlay.Overlay{}, root, m.Edit); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
	if len(named) < 20 {
		t.Errorf("%d mutants; fewer than 20 measure little", len(named))
	}
}

// TestMutantsCompile compiles each mutant's package: as many mutants at a time
// as touch different files, so that an error names the file and with it the
// mutant.
func TestMutantsCompile(t *testing.T) {
	root := moduleRoot(t)
	for left := mutants.All(); len(left) > 0; {
		var o overlay.Overlay
		var later []mutants.Mutant
		packages, taken := map[string]bool{}, map[string]string{}
		for _, m := range left {
			if taken[m.File] != "" {
				later = append(later, m)
				continue
			}
			taken[m.File] = m.Name
			packages["./"+m.File[:strings.LastIndexByte(m.File, '/')]] = true
			var err error
			if o, err = overlay.Mutated(o, root, m.Edit); err != nil {
				t.Fatalf("%s: %v", m.Name, err)
			}
		}
		var names []string
		for name := range packages {
			names = append(names, name)
		}
		if err := overlay.Compile(t.Context(), root, o, []string{cell.BuildTags}, names...); err != nil {
			t.Errorf("of the mutants %v: %v", taken, err)
		}
		left = later
	}
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := cell.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}
