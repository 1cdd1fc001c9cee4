// Package seed sets the seed of the Go runtime of package overlay. A program
// built without that runtime has no seed to set.
package seed
