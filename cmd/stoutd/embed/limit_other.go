//go:build !unix

package embed

// openFileLimit is not supported on these systems.
func openFileLimit() (uint64, bool) { return 0, false }
