// Package work is the clients of a run of chaos. Some use the Go SDK, some
// plain HTTP through whichever replica comes first; of both, some take locks and
// some write files. One reads at every replica;
// all are recorded, request by request. They work in epochs: in each on paths
// of its own and with sessions of its own, so that the record of a path stays
// short.
package work
