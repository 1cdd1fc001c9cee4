//go:build !unix

package main

// reportFileSizeLimit does nothing where there is no such limit.
func reportFileSizeLimit() {}

// openFileLimit is not known.
func openFileLimit() (uint64, bool) { return 0, false }
