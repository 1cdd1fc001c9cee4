// Package faultpoint lets a test stop, slow, fail or kill a process at a named
// stage of its work.
//
// The stages call Hit or Err. In every released build these are empty and
// inlined. With the build tag faultpoints, on Unix, they read orders from the
// file that the environment variable STOUT_FAULTPOINTS names. The file has one
// order per line:
//
//	point action [argument]
//
//	disk.sync sleep 250ms    each call takes that much longer, or until the order is gone
//	disk.sync hang           each call waits until the order is gone
//	disk.write full          Err returns ENOSPC
//	vote.store pause 7       the process stops itself (SIGSTOP), once for each such line
//	apply kill 8             the process kills itself (SIGKILL), once for each such line
//
// The argument of pause and kill only distinguishes lines. The first line for a
// point counts. A test replaces the file by renaming another one to its name.
package faultpoint
