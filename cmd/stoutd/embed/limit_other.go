//go:build !unix

package embed

// openFileLimit is not known.
func openFileLimit() (uint64, bool) { return 0, false }
