//go:build !unix

package readfile

// withoutWaiting is nothing where files are opened without waiting anyway.
const withoutWaiting = 0
