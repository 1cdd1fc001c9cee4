// Package audit writes the audit log: which callers were refused what, and
// which have changed what. Each record is one line of JSON.
//
// One goroutine has the file. Other goroutines hand a line over, and never wait
// (Log.Note). A disk that is full or hangs loses lines, which are counted, and
// has no other effect. Only a call that may not take effect without a line
// waits for it, for a bounded time (Log.Demand).
//
// A line is passed to the system whole, in one write, and not synced. It
// survives the end of the process, and may be lost in a power failure.
package audit
