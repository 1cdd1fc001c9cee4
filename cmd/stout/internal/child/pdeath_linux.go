package child

import "syscall"

// killWithParent has the kernel kill the command when this process dies
// without having had the time to do so itself.
func killWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
