// Package peerconn makes and takes the connections between the replicas of a cell.
// Each begins with a hello that says which cell and which member is meant,
// and the other end refuses what it is not: a new directory at an old address
// never answers for the old one, and replicas of two cells never mix.
//
// There are three kinds of connections, on one port: Raft's messages, calls
// that one replica forwards to another, and questions for a replica's card.
//
// With a Security the hello goes over TLS, as does what follows. Both ends
// show a certificate, and each wants it to be that of the member that it means:
// whoever dials, of the one that it wants; whoever is dialled, of the one that
// the hello names as its caller.
//
// What a caller sends counts while it is believed (Rules.Believes): a replica that
// is removed from the cell is cut off with its next byte, or by Review.
//
// # What strangers can do
//
// Until a connection has opened it costs a file, a goroutine and at most
// maxFrame bytes (with TLS, what crypto/tls takes of a handshake: some 300 KiB),
// for at most helloTimeout; there are at most maxUnopened of them, and one
// more closes the oldest of the address that has the most. Connections that have
// opened are bounded by kind and caller: members have theirs always, and of
// callers that are not known as members there are at most maxStrangers. Whatever
// is beyond a bound is closed, never left waiting. What a message of Raft's may
// take is bounded by package msglimit.
//
// Without TLS the hello proves nothing: whoever reaches the port is told the cell's name
// and id, and its members, and can call itself one of them. With TLS
// nobody is told anything without a certificate of the cell's.
package peerconn
