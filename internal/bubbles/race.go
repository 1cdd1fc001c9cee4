//go:build race

package bubbles

import "runtime"

func init() { runtime.GOMAXPROCS(1) }
