// Package exclusion is the resource that locks protect in a run of chaos, and the
// check of the times when clients relied on a hold. Both use this process's one
// clock, not the cell.
package exclusion
