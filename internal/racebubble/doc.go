// Package racebubble is imported, for its side effect, by tests of packages
// that use testing/synctest. Under the race detector it limits the process to
// one running thread.
//
// In a bubble, a timer that is due when it is set runs at once, on the thread
// that sets it. All such timers of a bubble share one context of the race
// detector. Two threads that use it at once corrupt it, and the process crashes
// in the detector (golang/go #78156; runtime/time.go of Go 1.26, needsAdd). The
// detector examines the happens-before order, so it finds races on one thread
// as well.
package racebubble
