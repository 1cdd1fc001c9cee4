// Package docs runs what the pages show, as it stands there: each block of
// commands of README.md and docs/, in order, in a copy of the sources, against
// the cell that `make run` starts there. What a block is to say is shown below
// it, or in the comment above it; see internal/docs.Block.
//
// Ports, and addresses and directories of other machines, are replaced by free
// ones of this machine. Nothing else is.
package docs
