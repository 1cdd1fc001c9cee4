package mutants_test

import (
	"maps"
	"path"
	"slices"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/test/cell"
	"github.com/stoutlock/stout/test/internal/overlay"
	"github.com/stoutlock/stout/test/sim/mutants"
)

// TestList checks that the list is complete and that each edit applies to its
// file.
func TestList(t *testing.T) {
	root := moduleRoot(t)
	named, edited := map[string]bool{}, map[overlay.Edit]string{}
	for _, m := range mutants.All() {
		if named[m.Name] || m.Name == "" {
			t.Errorf("the name %q is empty or used twice", m.Name)
		}
		named[m.Name] = true
		if m.Section == "" || m.Rule == "" || m.Shows == "" {
			t.Errorf("%s lacks its rule, the rule's place, or a schedule that shows it", m.Name)
		}
		if twin, ok := edited[m.Edit]; ok {
			t.Errorf("%s has the same edit as %s", m.Name, twin)
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

// TestMutantsCompile compiles the mutants' packages with all faults that fit
// into one program. Some of the others follow, together where they touch
// different files, so that an error names the file and with it the mutant.
func TestMutantsCompile(t *testing.T) {
	testrun.E2E(t)
	root, all := moduleRoot(t), mutants.All()
	var edits []overlay.Edit
	for _, m := range all {
		edits = append(edits, m.Edit)
	}
	o, alone, err := overlay.Choice(overlay.Overlay{}, root, edits)
	if err != nil {
		t.Fatal(err)
	}
	compile(t, o, root, all)
	if len(alone) > len(all)/10 {
		t.Errorf("%d of %d mutants need a build of their own, which makes the table slow", len(alone), len(all))
	}
	var left []mutants.Mutant
	for _, n := range testrun.Sample(t, 4, len(alone)) {
		left = append(left, all[alone[n]])
	}
	for len(left) > 0 {
		var o overlay.Overlay
		var these, later []mutants.Mutant
		taken := map[string]bool{}
		for _, m := range left {
			if taken[m.File] {
				later = append(later, m)
				continue
			}
			taken[m.File], these = true, append(these, m)
			if o, err = overlay.Mutated(o, root, m.Edit); err != nil {
				t.Fatalf("%s: %v", m.Name, err)
			}
		}
		compile(t, o, root, these)
		left = later
	}
}

// compile compiles the packages of some mutants.
func compile(t *testing.T, o overlay.Overlay, root string, of []mutants.Mutant) {
	t.Helper()
	packages := map[string]bool{}
	for _, m := range of {
		packages["./"+path.Dir(m.File)] = true
	}
	if err := overlay.Compile(t.Context(), root, o, []string{cell.BuildTags}, slices.Sorted(maps.Keys(packages))...); err != nil {
		t.Error(err)
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
