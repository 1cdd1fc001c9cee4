// Package seed sets the seed of the Go runtime that package overlay makes. In a
// program that was not built through it, there is none to set.
package seed
