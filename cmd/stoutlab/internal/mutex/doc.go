// Package mutex has the classical algorithms of distributed mutual exclusion, a
// file for each.
package mutex

import "github.com/stoutlock/stout/cmd/stoutlab/internal/spec"

// All are the algorithms, in the order in which a lecture would show them.
func All() []spec.Algorithm {
	return []spec.Algorithm{
		centralSpec, tokenRingSpec, ricartSpec, maekawaSpec, deadlockFreeSpec, stoutSpec,
	}
}
