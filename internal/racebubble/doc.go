// Package racebubble is imported, for its effect, by the tests of packages that use
// testing/synctest: with the race detector it has one thread run at a time.
//
// A timer that is due when it is set runs at once in a bubble, on whatever thread
// sets it, and all such timers of a bubble have one context of the race detector,
// which two threads at once break: the process dies in the detector (golang/go
// #78156; runtime/time.go of Go 1.26, needsAdd). The detector looks at what happens
// before what, and finds races on one thread as well.
package racebubble
