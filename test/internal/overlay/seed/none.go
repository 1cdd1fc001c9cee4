//go:build !simulated

package seed

// Set panics: this program's runtime has no seed.
func Set(uint64) {
	panic("seed: this program was not built through package overlay; see test/sim")
}
