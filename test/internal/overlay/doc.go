// Package overlay builds programs of this module with some source files
// replaced (go build -overlay): the Go runtime's, so that a run is a function
// of its seed; the product's, so that it has a known fault; and those of
// whatever writes to a disk, so that it can lose its power. The files
// themselves are never touched.
//
// # A run that is a function of its seed
//
// Within a bubble of testing/synctest time is virtual, but a program is still
// not deterministic: the runtime draws random numbers (which case of a select
// goes first, which of two timers of the same instant, where the walk of a map
// begins), and its scheduler looks at the real clock. Runtime replaces what
// does so. While a seed is set (package seed), and for the goroutines of a
// bubble only,
//
//   - the order of a select's cases, of the timers of one instant, of runnable
//     goroutines, and the numbers of math/rand, math/rand/v2 and
//     crypto/rand.Read are drawn from streams that the seed alone determines:
//     one stream for each purpose, so that one draw more of one kind shifts
//     nothing of another;
//   - walks of maps begin at a place that is the same for the whole seed, so
//     that what an earlier seed of the process has cached, and this one need
//     not build, shifts nothing;
//   - no goroutine is preempted, loses its processor in a system call, or is
//     overtaken by one outside the bubble;
//   - sync.Mutex counts how long it was waited for on the virtual clock;
//   - the garbage collector does not start by itself (runtime.GC still works);
//     setting a seed collects what earlier ones have left.
//
// Without a seed the program behaves as one that was built plainly, but for two
// things that are settled before a seed can be: hashes of map keys and the hash
// seeds of maps are constants, and a context cancels its children in the order
// in which they were made.
//
// # What it asks of the program
//
//   - GOMAXPROCS=1; setting a seed panics otherwise.
//   - Nothing in the bubble reads a real clock or a socket for anything that it
//     acts upon, nor a file that something else may write to. internal/boottime
//     does: give a Clock.
//   - Nothing shows the order of a map of more than eight entries whose keys
//     hold addresses (pointers, channels, interfaces of these): it follows from
//     where the heap happened to place them.
//   - At most 65536 goroutines of the bubble are runnable at any one time, and
//     there is one bubble.
//   - runtime.GC is not called in the bubble.
//   - One seed's garbage fits in memory.
//   - crypto/rand.Reader is not read directly (Read and Text are covered).
//
// Who runs next is drawn among all goroutines of the bubble that may run, so
// that seeds try orders which the runtime, left to itself, would hardly ever
// take.
//
// A goroutine that hangs in a loop is preempted after ten seconds all the same,
// so that the time-out of go test and signals still work. From there on the run
// is not reproducible.
package overlay
