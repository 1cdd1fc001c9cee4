// Package work is the clients of a run of chaos. Some use the Go SDK, some use
// plain HTTP through any replica; of both, some lock and some write files. Others
// use keys and sessions through the door for Consul's clients, and the same keys
// through the API. One reads at every replica. All requests are recorded. The clients work in
// epochs, each with its own paths and sessions, so that the record of a path
// stays short.
package work
