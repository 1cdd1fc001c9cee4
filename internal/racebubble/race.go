//go:build race

package racebubble

import "runtime"

func init() { runtime.GOMAXPROCS(1) }
