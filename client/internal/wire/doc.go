// Package wire makes HTTP/1.1 exchanges over connections of its own.
//
// net/http's Transport has two goroutines for every connection and hands each
// request and each answer from one to the other; the calls of a lock service
// are so small that this is half of their cost. Here an exchange runs in its
// caller's goroutine: one write, then reads until the answer is complete. An
// idle connection has no goroutine at all. Instead, a connection is checked
// before it is used again, to see whether the peer has closed it.
//
// Any net.Conn will do, such as one of crypto/tls: whoever has a Pool may say
// how it dials. On a bare socket everything takes the fewest system calls; over
// another connection the same holds by what every net.Conn can do, deadlines.
//
// It does what the SDK needs and no more: no proxies, redirects, cookies or
// compression, and bodies that are in memory.
package wire
