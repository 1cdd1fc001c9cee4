// Package elect has the classical algorithms of election, one file each.
//
// In all of them a process's id is its attribute: the best process has the
// highest id (in sync-ring the lowest).
package elect

import "github.com/stoutlock/stout/cmd/stoutlab/internal/spec"

// All returns the algorithms, in the order of a lecture.
func All() []spec.Algorithm {
	return []spec.Algorithm{
		ringSpec, naiveSpec, changRobertsSpec, lcrSpec, hsSpec,
		anonymousSpec, itaiRodehSpec, syncRingSpec,
		multicastSpec, multicastTimeoutSpec, multicastDisagreeSpec, bullySpec,
		zookeeperSpec, herdSpec, chubbySpec,
	}
}
