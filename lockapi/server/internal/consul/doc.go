// Package consul reads requests of Consul's HTTP API for keys, sessions and
// transactions, makes the calls of Stout that they mean, and writes answers as
// Consul does.
//
// A Consul key is a file together with the lock at one path (keys.go); its
// ModifyIndex and X-Consul-Index are revisions. Parse turns a request into a
// Call. The server lets a Call wait, forwards it to the master and runs it
// there. docs/consul.md has what is accepted, and every difference. Package
// replica/state has the meaning of a key, package server the ways of a call.
package consul
