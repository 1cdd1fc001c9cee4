package faultpoint

// Variable is the environment variable that names the file of orders.
const Variable = "STOUT_FAULTPOINTS"

// The points, with the stage of each.
const (
	DiskWrite      = "disk.write"      // before bytes go to a file (Err)
	DiskSync       = "disk.sync"       // before a file or a directory is synced (Err)
	StoreCommit    = "store.commit"    // before a transaction of raft-boltdb, which writes and syncs (Err)
	EntriesStore   = "entries.store"   // before entries go to the log
	EntriesSend    = "entries.send"    // before entries or a heartbeat go to a follower
	VoteStore      = "vote.store"      // between the term and the candidate of a vote
	VoteAsk        = "vote.ask"        // before a vote is requested
	Apply          = "apply"           // before an entry is applied
	SnapshotWrite  = "snapshot.write"  // before bytes of a snapshot are written (Err)
	SnapshotFinish = "snapshot.finish" // before a snapshot gets its name (Err)
	BatchProposed  = "batch.proposed"  // before a batch goes to the log
	BatchAnswered  = "batch.answered"  // before the callers of a batch get their answers
	OfficeOpened   = "office.opened"   // after the entry that opens an office
	OfficeResigned = "office.resigned" // before the entry that closes an office
)

// Points lists all points.
var Points = []string{
	DiskWrite, DiskSync, StoreCommit, EntriesStore, EntriesSend, VoteStore, VoteAsk, Apply,
	SnapshotWrite, SnapshotFinish, BatchProposed, BatchAnswered, OfficeOpened, OfficeResigned,
}
