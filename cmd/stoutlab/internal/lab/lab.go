// Package lab runs the algorithms of election and mutual exclusion on a
// simulated network. It compares the messages with the books' counts and checks
// safety and liveness. The lab is a separate module and uses no code of the
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
	return spec.Algorithm{}, usage("unknown algorithm %q; want one of %s", name, strings.Join(names, ", "))
}
