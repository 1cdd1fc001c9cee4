//go:build !simulated

package seed

// Possible reports whether this program was built through package overlay.
const Possible = false

// Set panics: this program's runtime has no seed.
func Set(uint64) {
	panic("seed: this program was not built through package overlay; see test/sim")
}
