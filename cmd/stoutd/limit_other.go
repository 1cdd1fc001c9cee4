//go:build !unix

package main

// reportFileSizeLimit does nothing where there is no such limit.
func reportFileSizeLimit() {}
