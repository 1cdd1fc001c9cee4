// Package conformance has the scenarios that every client must pass: the Go,
// Python and TypeScript clients of this repository, and any other. Each
// scenario runs one client on a real cell and causes faults between them. The
// client runs in a driver, a program in its own language that speaks lines of
// JSON.
//
// docs/writing-a-client.md has the protocol of drivers and the rules that the
// scenarios test. Package godriver is the reference.
//
//	STOUT_TEST=e2e go test ./test/conformance -run TestPython
//	STOUT_TEST=e2e STOUT_CONFORMANCE_DRIVER='python3 driver.py' go test ./test/conformance -run TestGiven
//
// The tests need Unix, and for each client its language: python3, node.
package conformance
