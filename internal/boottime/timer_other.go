//go:build !linux

package boottime

func theQueue() *queue { return polled() }
