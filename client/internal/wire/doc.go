// Package wire makes HTTP/1.1 exchanges over connections of its own.
//
// net/http's Transport has two goroutines for every connection and hands each
// request and each answer from one to the other; the calls of a lock service
// are so small that this is half of their cost. Here an exchange runs in its
// caller's goroutine: one write, then reads until the answer is complete. An
// idle connection has no goroutine at all. Instead, a connection is checked
// before it is used again, to see whether the peer has closed it.
//
// Any net.Conn works, such as one of crypto/tls: Pool.Dial may make it. A bare
// socket needs the fewest system calls; over another connection the same
// guarantees are kept with the deadlines of every net.Conn.
//
// It supports only the needs of the SDK: no proxies, redirects, cookies or
// compression, and bodies are in memory.
package wire
