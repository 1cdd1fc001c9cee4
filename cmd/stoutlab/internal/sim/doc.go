// Package sim is a network of processes in virtual time, small enough to read
// in one sitting. It runs the algorithms of the lab.
//
// A process is a state machine: it receives events (Init, Receive, Timeout) and
// acts through a Port. It has no clock and no goroutine of its own, so a run is
// a function of its Config; its seed decides everything random. Two drivers
// share the machinery:
//
//   - Run lets virtual time pass. Messages arrive after their latency, timers
//     fire after their span on the process's own clock, and faults happen when
//     their trigger does.
//   - Choices and Take leave the order to the caller, which can thus explore
//     every schedule (package explore).
//
// The network counts messages by kind, follows the longest causal chain, and
// keeps a trace with Lamport clocks on request.
package sim
