// Package mutex has the classical algorithms of distributed mutual exclusion,
// one file each.
package mutex

import "github.com/stoutlock/stout/cmd/stoutlab/internal/spec"

// All returns the algorithms, in the order of a lecture.
func All() []spec.Algorithm {
	return []spec.Algorithm{
		centralSpec, tokenRingSpec, ricartSpec, maekawaSpec, deadlockFreeSpec, stoutSpec,
	}
}
