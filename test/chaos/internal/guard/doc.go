// Package guard is the resource that locks protect in a run of chaos, and the
// check of what clients believed to hold. Both are judged without the cell: in
// this process, on its one clock.
package guard
