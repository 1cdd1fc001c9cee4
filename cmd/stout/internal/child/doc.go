// Package child runs a command for as long as a lease allows.
//
// The command gets a process group of its own, so that a signal reaches all of
// it. While the lease is renewed, the command runs undisturbed and signals sent
// to this process are forwarded to the group. If the lease is not renewed in
// time, the group is asked to stop (SIGTERM), and killed (SIGKILL) before the
// lease can end: the next holder of the lock never runs beside it. If another
// caller revokes the lease, the group is asked to stop at once, because the next
// holder may already be at work.
//
// The operating system limits this:
//
//   - A process in an uninterruptible wait dies only when that wait is over.
//   - A process that leaves the group (setsid, setpgid) is no longer reached.
//   - A command that has become another user's (sudo) cannot be ended.
//   - If this process itself is killed, Linux kills the command at once, by
//     its parent-death signal. The command's own children are not reached by
//     that, nor is a command that is set-user-id or has other capabilities. On
//     other systems the command continues.
//   - While this process is stopped, or the machine sleeps, the lease is not
//     watched. Afterwards the watch reads a clock that continued, and kills at
//     once.
//
// On Windows the group is a job. It is asked to stop by Ctrl-Break, and killed as
// a whole, also when this process is killed. It cannot be stopped or continued.
//
// Fencing tokens cover these gaps: the resource that the command writes to should
// refuse tokens lower than the highest one it has seen.
package child
