// Package certs makes certificates, and keeps those that a process uses in step
// with their files.
//
// A Source has the contents of a certificate's file, its key's, and that of the
// CAs by which the other end is judged. It looks at them once a second. A
// change is taken when two looks in a row have found the same, so that a file
// that is being written is not taken by half. The three are taken together or
// not at all: where anything is wrong with them, those before stay in force, and
// it is said why. Connections that are open stay open; each new one has what is
// in force then.
//
// An Authority signs certificates, for those who have nobody that does.
package certs
