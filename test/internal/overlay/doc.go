// Package overlay builds programs of this module with some source files
// replaced (go build -overlay). It replaces files of the Go runtime, so that a
// run is a function of its seed; files of the product, to give it a known
// fault; and files that write to a disk, so that it can lose its power. The
// files themselves are never changed.
//
// # A run that is a function of its seed
//
// Within a bubble of testing/synctest time is virtual, but a program is still
// not deterministic. The runtime draws random numbers (which case of a select
// goes first, which of two timers of the same instant, where the walk of a map
// begins), and its scheduler looks at the real clock. Runtime replaces these
// parts. While a seed is set (package seed), and for the goroutines of a bubble
// only,
//
//   - the order of a select's cases, of the timers of one instant, of runnable
//     goroutines, and the numbers of math/rand, math/rand/v2 and
//     crypto/rand.Read are drawn from streams that the seed alone determines:
//     one stream for each purpose, so that one more draw of one kind does not
//     shift another;
//   - walks of maps begin at a place that is the same for the whole seed, so
//     that values cached by an earlier seed of the process, and not built
//     again, do not shift the draws;
//   - no goroutine is preempted, loses its processor in a system call, or is
//     overtaken by one outside the bubble;
//   - sync.Mutex measures waiting times on the virtual clock;
//   - the garbage collector does not start by itself (runtime.GC still works);
//     setting a seed collects the garbage of earlier ones.
//
// Without a seed the program behaves as one built plainly, except for two
// things that are fixed before a seed can be set. Hashes of map keys and the
// hash seeds of maps are constants. A context cancels its children in the order
// in which they were created.
//
// # Requirements on the program
//
//   - GOMAXPROCS=1; setting a seed panics otherwise.
//   - The bubble must not act on a real clock, on a socket, or on a file that
//     another program may write to. internal/boottime reads a real clock: give
//     a Clock.
//   - The program must not expose the order of a map of more than eight entries
//     with keys that hold addresses (pointers, channels, interfaces of these).
//     That order follows from where the heap placed them.
//   - At most 65536 goroutines of the bubble are runnable at any one time, and
//     there is one bubble.
//   - runtime.GC is not called in the bubble.
//   - One seed's garbage fits in memory.
//   - crypto/rand.Reader is not read directly (Read and Text are covered).
//
// The next goroutine to run is drawn from all runnable goroutines of the
// bubble. So seeds try orders that the runtime alone would hardly ever take.
//
// A goroutine that hangs in a loop is still preempted after ten seconds, so
// that the time-out of go test and signals work. From there on the run is not
// reproducible.
package overlay
