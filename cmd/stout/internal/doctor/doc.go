// Package doctor finds problems of a cell and of a client's connection to it. A
// Prober asks the replicas; Examine, a pure function, evaluates the answers.
//
// Texts may contain foreign words: the caller must make them safe before it
// prints them.
package doctor
