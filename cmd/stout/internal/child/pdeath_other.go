//go:build unix && !linux

package child

import "syscall"

// killWithParent does nothing: this system cannot, or not through Go.
func killWithParent(*syscall.SysProcAttr) {}
