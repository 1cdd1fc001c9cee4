package child

import "syscall"

// killWithParent makes the kernel kill the command if this process dies first.
func killWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
