// Package docs runs the commands of the pages exactly as shown: each block of
// commands of README.md and docs/, in order, in a copy of the sources, against
// the cell that `make run` starts there. The expected output is shown below a
// block, or in the comment above it; see internal/docs.Block.
//
// Only ports, and addresses and directories of other machines, are replaced, by
// free ones of this machine.
package docs
