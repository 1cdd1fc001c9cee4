// Package server is Stout's HTTP interface. It reads and validates a request,
// passes it to the master, and writes the answer according to the contract in
// package lockapi and its openapi.in.yaml.
//
// A request becomes a call, a value of a type in package lockapi (call.go). The
// type states where each field travels; its row in package master has the
// required right and the method that serves it. A route is a line of routes.go,
// with a plan for exceptions.
//
// Every replica accepts every call. A malformed call is refused at once. A
// valid one is answered if this replica is the master, and otherwise forwarded
// to the master. The server keeps no state of the cell: it gets everything from
// a Master, the interface that it declares.
//
// Code that does not depend on the present call has packages of its own: the
// bytes of a connection (wire), limits (gate), JSON (codec), events (stream),
// the other members (peers), and the requests of Consul's clients (consul).
//
// Callers may be slow, numerous or gone. The memory for them is bounded in
// total, by connections and calls (package gate) and by bytes (package wire),
// and health probes get an answer even under overload. A web page that the user
// does not trust can make a browser send calls: such changes are refused
// (browsers.go).
//
// Three rules hold for every handler. A call is sent a second time only if the
// first attempt certainly had no effect, or if it reads. A caller that closes
// its connection ends its call, forwarded or not. A reply is written only when
// it is complete, so a failure half-way is still a problem document. A stream
// is the exception: its handler flushes its output, ends when stopping is
// closed, and closes the connection on failure.
package server
