// Package readfile reads small files again and again, on file systems that may hang.
//
// A [Reader] gives a read up after [Patience] and tries again later, beside the one
// that hangs: a network file system that comes back, or is mounted anew, is read
// again without a restart. What is no regular file is refused at once: reading a
// named pipe would wait for a writer, and take what another reader needs.
package readfile
