// Package readfile repeatedly reads small files from file systems that may
// hang.
//
// A [Reader] gives up a read after [Patience] and tries again later, beside the
// read that hangs. So a network file system that comes back, or is mounted
// again, is read without a restart. Anything but a regular file is refused at
// once. Reading a named pipe would wait for a writer, and consume what another
// reader needs.
package readfile
