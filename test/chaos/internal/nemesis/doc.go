// Package nemesis does to a cell what the world does, as a seed decides: it
// draws faults one after the other, some of which overlap, and undoes each
// after a while. The seed decides which faults, for how long, and whom they hit
// unless that is the master, whoever it is then. The clock is left alone.
//
// Disks are made slow in four ways. "disk" has this process write and sync
// files beside the replicas' data, as a neighbour on the same disk would; where
// cgroups (version 1, blkio) may be written to, as root may, it throttles one
// replica's writes to a few dozen a second as well, so that a sync takes a
// hundred milliseconds or more. "stutter" needs nothing: it stops a replica for
// 10 to 300 ms again and again, which to the others looks like a disk that
// stalls on the replica's main goroutine. "slow-sync" and "hung-sync" delay each
// sync of one replica's stores by the fault points of its process.
package nemesis
