// Package certs makes certificates, and keeps a process's certificates in step
// with their files.
//
// A Source holds the contents of three files: a certificate, its key, and the
// CAs that verify the other end. It reads them once a second. A change takes
// effect when two reads in a row found the same, so a half-written file is not
// used. The three take effect together or not at all. If anything is wrong with
// them, the previous ones stay in force and the reason is reported. Open
// connections stay open; each new one uses the files in force.
//
// An Authority signs certificates, for users without a CA of their own.
package certs
