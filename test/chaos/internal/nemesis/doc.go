// Package nemesis causes faults in a cell: it draws faults one after the other
// and undoes each after a while; some of them overlap. The seed decides the
// faults, their lengths and their victims. Only a fault of the master finds its
// victim at run time. Clocks are not changed.
//
// Disks are made slow in four ways. "disk" makes this process write and sync
// files beside the replicas' data, as a neighbour on the same disk would. If
// cgroups (version 1, blkio) are writable, as for root, it also throttles one
// replica's writes to a few dozen a second. A sync then takes a hundred
// milliseconds or more. "stutter" needs no privilege: it stops a replica for 10
// to 300 ms again and again. To the others this looks like a disk that stalls
// on the replica's main goroutine. "slow-sync" and "hung-sync" delay each sync
// of one replica's stores by the fault points of its process.
package nemesis
