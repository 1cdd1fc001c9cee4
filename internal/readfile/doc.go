// Package readfile repeatedly reads small files from file systems that may
// hang.
//
// A [Reader] gives up a read after [Patience] and tries again later, beside the
// read that hangs. So a network file system that comes back, or is mounted
// again, is read without a restart. Anything but a regular file is refused at
// once. Reading a named pipe would wait for a writer, and consume what another
// reader needs.
//
// A [Followed] takes over changes of files. A change takes effect when two reads in
// a row found the same, so a half-written file is not used. Several files take
// effect together or not at all. If anything is wrong with them, the previous
// content stays in force and the reason is reported.
package readfile
