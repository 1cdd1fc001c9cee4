//go:build !unix

package readfile

// withoutWaiting is 0 on systems that open files without waiting.
const withoutWaiting = 0
