// Package audit writes the audit log: who was refused what, and who has changed
// what, a line of JSON each.
//
// One goroutine has the file. Whoever has something to note hands a line over,
// and is never kept waiting (Log.Note): a disk that is full or hangs costs lines,
// which are counted, and nothing else. Only a call that may not take effect
// without a line waits for one, for a bounded time (Log.Demand).
//
// A line is handed to the system whole, in one write, and not synced: it survives
// the end of the process, and may be lost with the machine's power.
package audit
