// Package typescript tests the client for Node, client/typescript: its types
// under a strict compiler, its own tests, and the examples of its README on a
// real cell. test/conformance tests its safety. It has no other code.
//
// The tests need node 20 and npm, which installs the compiler that the
// package's lock file names.
package typescript
