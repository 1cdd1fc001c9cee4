//go:build unix && !linux

package child

import "syscall"

// killWithParent does nothing: this system does not support it, at least not
// through Go.
func killWithParent(*syscall.SysProcAttr) {}
