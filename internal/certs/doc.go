// Package certs makes certificates, and keeps a process's certificates in step
// with their files.
//
// A Source follows three files: a certificate, its key, and the CAs that verify
// the other end. Open connections stay open; each new one uses the files in force.
//
// An Authority signs certificates, for users without a CA of their own.
package certs
