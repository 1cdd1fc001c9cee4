//go:build !linux

package main

// raiseTimerSlack does nothing: only Linux has a slack that a process can set.
func raiseTimerSlack() {}
