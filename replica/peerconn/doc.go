// Package peerconn opens and accepts the connections between the replicas of a
// cell. Each begins with a hello that names the wanted cell and member. The
// other end refuses if it is another one. So a new directory at an old address
// never answers for the old one, and replicas of two cells never mix.
//
// There are three kinds of connections, on one port: Raft's messages, calls
// that one replica forwards to another, and requests for a replica's card.
//
// With a Security the hello and everything after it goes over TLS. Both ends
// show a certificate. The dialling end requires the certificate of the member
// that it wants; the other end requires the certificate of the member that the
// hello names as its caller.
//
// A caller's data counts only while the caller is believed (Rules.CheckSender). A
// replica that is removed from the cell is cut off with its next byte, or by
// Review.
//
// # What strangers can do
//
// Until a connection has opened it costs a file, a goroutine and at most
// maxFrame bytes, for at most helloTimeout. With TLS it costs what crypto/tls
// needs for a handshake: some 300 KiB. There are at most maxUnopened such
// connections; one more closes the oldest of the address that has the most.
// Opened connections are bounded by kind and caller: members always have
// theirs, and at most maxStrangers callers may be unknown as members. A
// connection beyond a bound is closed, never left waiting. Package msglimit
// bounds Raft's messages.
//
// Without TLS the hello proves nothing. Any caller that reaches the port and
// knows the cell's name learns the cell's id and members, and can claim to be
// one of them. With TLS a caller needs a certificate of the cell to learn any
// of that.
package peerconn
