// Package drive makes the calls of a load: through the Go SDK, as most programs
// do, or by plain HTTP with as little of a client as possible, which shows what
// the server itself can do.
package drive
