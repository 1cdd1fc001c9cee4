// Package server is Stout's HTTP interface: it reads and validates a request,
// hands it to the master, and writes the answer as the contract in package
// lockapi and its openapi.in.yaml have it.
//
// A request becomes a call, a value of a type in package lockapi (call.go): the type
// describes where each field travels, and its row in package master has the right that
// it takes and the method that serves it. A route is a line of routes.go, with a plan
// for exceptions.
//
// Any replica takes any call. What is malformed is refused where it arrives;
// what is sound is answered by this replica if it is the master, and is
// forwarded to the master otherwise. The server keeps no state of the cell: all
// that it knows it asks of a Master, the interface that it declares.
//
// Callers may be slow, many, or gone: what is kept for them is bounded in all,
// by connections and calls (package gate) and bytes (package wire), and whoever
// asks how the replica is gets an answer all the same. A browser may be made to
// call by a page that its user does not trust: what such a page would change is
// refused (browsers.go).
//
// Three rules hold for every handler. A call is sent a second time only if the
// first certainly had no effect, or if it reads. A caller that breaks its
// connection ends its call, forwarded or not. And a reply is written only when
// it is whole, so a failure half-way is still a problem document; but for a
// stream, whose handler flushes what it writes, ends when stopping is closed,
// and is cut off where it fails.
package server
