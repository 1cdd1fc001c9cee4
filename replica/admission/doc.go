// Package admission decides how a data directory becomes part of a cell: by
// founding one together with all others of the founding list, or by being
// admitted in the place of another directory. It is pure: what a replica knows
// of itself (Identity) and what the others told it (Card) go in, and what to do
// next comes out.
//
// A member of a cell is a name *and* a directory (ServerID). What a directory
// forgot when its disk was wiped, nobody counts on: the new directory is
// another server, which votes for nobody and stores nothing before it is
// admitted.
//
// # Founding
//
// A replica with a new directory founds nothing by itself. All replicas of the
// founding list go through the same steps, each on its own, by asking the
// others for their cards again and again:
//
//  1. It gets the cards of all. Each has a new directory, the same cell name and
//     the same names in its list.
//  2. It prepares: it writes the founding (every name with its directory) into
//     its own directory, durably, and shows it on its card.
//  3. When every card shows the same founding, it founds: it writes the cell's
//     id, which is a digest of the founding, and then the first configuration.
//
// A directory prepares one founding in its life. So of two foundings that share
// a directory at most one comes about, for each needs all of its directories:
// wiped disks and old ones that come back cannot make two cells with a member
// in common. A crash leaves a directory that goes on where it was.
//
// A prepared founding that cannot come about any more, because a replica of it
// has a new directory and nobody has founded, is given up with the directory
// itself: the replica takes a new directory id and begins again. If somebody
// had founded after all, that cell has lost a member it never heard from.
//
// A directory that others know as a founder or a voter and that does not know
// its cell was put back as it was before. As that member it may have voted, so
// it gives its id up likewise. (Put back to between steps 2 and 3 it is not
// told from one that has crashed there, and goes on.)
//
// # Admission
//
// A replica whose name is a member's but whose directory is not waits, and says
// so, until a card of the cell lists its directory (master.Replace). So does
// one whose directory was a member's and has been replaced.
package admission
