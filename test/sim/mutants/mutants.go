// Package mutants lists deliberate faults of the product, each the slip of a
// tired programmer, to measure what the simulator sees: one that it does not
// find is a gap of the simulator's. They are compiled in by package overlay; the
// product's sources have no hooks for them.
package mutants

import (
	"slices"

	"github.com/stoutlock/stout/test/sim/internal/overlay"
)

// Mutant is one fault.
type Mutant struct {
	Name    string
	Section string // of docs/design.md, or a document's name, that has the rule
	Rule    string // the rule that it breaks
	Shows   string // a schedule that shows it
	overlay.Edit
}

// All lists the mutants, those of one layer together. Their names are unique.
func All() []Mutant {
	return slices.Concat(leases(), offices(), sessions(), locks(), answers(), sdk())
}
