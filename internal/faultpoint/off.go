//go:build !faultpoints || !unix

package faultpoint

// Enabled reports whether points follow orders.
const Enabled = false

// Hit does nothing.
func Hit(string) {}

// Err returns nil.
func Err(string) error { return nil }
