// Package lab runs the algorithms of election and mutual exclusion on a
// simulated network, and judges what came of it: the messages against the
// books' counts, safety, and liveness.
//
// It stands apart from the service: all it takes from it is the arithmetic of
// leases.
package lab

import (
	"strings"

	"github.com/stoutlock/stout/internal/lab/elect"
	"github.com/stoutlock/stout/internal/lab/mutex"
	"github.com/stoutlock/stout/internal/lab/spec"
	"github.com/stoutlock/stout/internal/suggest"
)

// Algorithms are all algorithms of the lab, elections first.
func Algorithms() []spec.Algorithm { return append(elect.All(), mutex.All()...) }

// Find is the algorithm of that name.
func Find(name string) (spec.Algorithm, error) {
	var names []string
	for _, a := range Algorithms() {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	if near := suggest.Nearest(name, names); near != "" {
		return spec.Algorithm{}, usage("there is no algorithm %q; did you mean %q?", name, near)
	}
	return spec.Algorithm{}, usage("there is no algorithm %q; there are %s", name, strings.Join(names, ", "))
}
