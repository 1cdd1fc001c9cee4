// Package wire makes HTTP/1.1 exchanges over connections of its own.
//
// net/http's Transport has two goroutines for every connection and hands each
// request and each answer from one to the other; the calls of a lock service are
// so small that this is half of what they cost. Here an exchange is made in the
// goroutine of its caller: one write, and then reads until the answer is whole. An
// idle connection has no goroutine at all. What it takes instead is a look at a
// connection before it is used again, to see whether the other side has closed it.
//
// It does what the SDK needs and no more: no TLS, proxies, redirects, cookies or
// compression, and bodies that are in memory.
package wire
