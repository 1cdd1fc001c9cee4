// Package child runs a command for as long as a lease allows.
//
// The command gets a process group of its own, so that a signal reaches all of
// it. While the lease is renewed, the command runs undisturbed and signals sent
// to this process are passed on to the group. When the lease was not renewed in
// time the group is asked to stop (SIGTERM), and killed (SIGKILL) before the
// lease can end: whoever gets the lock next never runs beside it. When somebody
// revoked the lease the group is asked to stop at once: the next holder may be
// at work by then.
//
// What the operating system does not allow, and what follows from it:
//
//   - A process in an uninterruptible wait dies only when that wait is over.
//   - A process that leaves the group (setsid, setpgid) is no longer reached.
//   - If this process itself is killed, Linux kills the command at once, by
//     its parent-death signal. The command's own children are not reached by
//     that, nor is a command that is set-user-id or has other capabilities. On
//     other systems the command runs on.
//   - If this process is stopped, or the machine sleeps, nobody watches until
//     it goes on. The watch then reads a clock that went on, and kills at once.
//
// On Windows the group is a job. It is asked to stop by Ctrl-Break, killed as a
// whole, also when this process itself is, and not stopped or continued.
//
// Fencing tokens cover these gaps: what the command writes to should refuse a
// token that is lower than one it has seen.
package child
