// Package admission decides how a data directory becomes part of a cell: by
// founding one together with all others of the founding list, or by being
// admitted in place of another directory. It is pure: it computes the next step
// from what a replica knows about itself (Identity) and from the answers of the
// others (Info).
//
// A member of a cell is a name *and* a directory (ServerID). When a disk is
// wiped, its new directory is another server. So no member counts the votes and
// entries of the old directory as the new one's. The new one neither votes nor
// stores anything before it is admitted.
//
// # Founding
//
// A replica with a new directory does not found a cell by itself. All replicas of
// the founding list take the same steps, each on its own, by repeatedly asking
// the others for their cards:
//
//  1. It gets the cards of all. Each has a new directory, the same cell name and
//     the same names in its list.
//  2. It prepares: it writes the founding (every name with its directory) into
//     its own directory, durably, and shows it on its card.
//  3. When every card shows the same founding, it founds: it writes the cell's
//     id, which is a digest of the founding, and then the first configuration.
//
// A directory prepares only one founding in its life, and a founding needs all of
// its directories. So of two foundings that share a directory at most one can
// succeed. Wiped disks and restored old ones cannot make two cells with a member
// in common. After a crash a directory resumes at the step where it was.
//
// A prepared founding fails if one of its replicas has a new directory and the
// cell has not been founded. The replica then gives up the directory along with
// the founding: it takes a new directory id and begins again. If another replica
// had founded after all, its cell has lost a member from which it never received
// anything.
//
// If others know a directory as a founder or a voter, and it does not know its
// cell, then an older copy of it was put back. As that member it may have
// voted, so it gives up its id as well. (A copy made between steps 2 and 3
// looks like a directory that crashed there, and resumes.)
//
// # Admission
//
// A replica waits, and reports so, if its name is a member's but its directory
// is not, until a card of the cell lists its directory (master.Replace). A
// replica also waits if its directory was a member's and has been replaced.
package admission
