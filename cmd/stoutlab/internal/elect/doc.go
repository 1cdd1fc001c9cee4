// Package elect has the classical algorithms of election, a file for each.
//
// In all of them a process's id is its attribute: the best process is the one
// with the highest id (in sync-ring the lowest).
package elect

import "github.com/stoutlock/stout/cmd/stoutlab/internal/spec"

// All are the algorithms, in the order in which a lecture would show them.
func All() []spec.Algorithm {
	return []spec.Algorithm{
		ringSpec, naiveSpec, changRobertsSpec, lcrSpec, hsSpec,
		anonymousSpec, itaiRodehSpec, syncRingSpec,
		multicastSpec, multicastTimeoutSpec, multicastDisagreeSpec, bullySpec,
		zookeeperSpec, herdSpec, chubbySpec,
	}
}
