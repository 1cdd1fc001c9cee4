//go:build simulated

package seed

import _ "unsafe" // for go:linkname

// Set makes the following bubbles of testing/synctest a function of n; 0 ends
// that. Call it outside any bubble. It panics unless GOMAXPROCS is 1.
//
//go:linkname Set runtime.simSeed
func Set(n uint64)
