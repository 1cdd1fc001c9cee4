//go:build !unix

package main

// reportFileSizeLimit does nothing: these systems have no such limit.
func reportFileSizeLimit() {}
