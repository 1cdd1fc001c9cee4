// Package lab runs the algorithms of election and mutual exclusion on a
// simulated network. It compares the messages with the books' counts and checks
// safety and liveness. The lab is a module of its own and uses nothing of the
// service.
package lab

import (
	"strings"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/elect"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/mutex"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// Algorithms returns all algorithms of the lab, elections first.
func Algorithms() []spec.Algorithm { return append(elect.All(), mutex.All()...) }

// Find returns the algorithm of that name.
func Find(name string) (spec.Algorithm, error) {
	var names []string
	for _, a := range Algorithms() {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return spec.Algorithm{}, usage("there is no algorithm %q; there are %s", name, strings.Join(names, ", "))
}
