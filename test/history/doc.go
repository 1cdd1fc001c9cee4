// Package history records what clients did to a cell over HTTP and what came of
// it, and checks the record against sequential models of locks and of files.
//
//	recorder := history.NewRecorder()
//	c, err := client.Config{URLs: urls, Transport: recorder.Transport("c1", nil)}.New()
//	… // clients work, replicas fail
//	verdict := history.Check(recorder.Attempts(), time.Minute)
//
// The record is of single HTTP requests, called attempts here: a call that a
// client sends again is several of them. So the model needs to know nothing of
// retries, and the Go SDK and a plain HTTP client are checked alike.
//
// # Unknown outcomes
//
// An attempt whose answer was lost, or was outcome_unknown, may take effect at
// any time after it was sent, or never; once the session that it was made for
// has ended it can do nothing any more. A queue position that was told (202) is
// a grant that may come at any time until the place is left. A grant to a wait
// without queue whose call was lost may be taken back again, as nobody knows of
// it. What certainly had no effect by the contract (no_master, not_master, 423,
// 429, a connection that was refused) is no step at all, so an effect that it
// had after all shows.
//
// To keep the search short, the record is first looked at as if what nobody saw
// had not happened. Where that makes a right record the matter is settled;
// where not, everything that may have happened is tried.
//
// # Sessions
//
// A session's lease ends, for its client, ttl after the sending of its last
// answered keepalive plus the time that the server held that. From then on the
// session may end at any time in the model. Closing it ends it during the call.
//
// # Files
//
// A call about files is judged as the transaction that it amounts to. Files and
// locks that transactions name together are a group with one state; every other
// file is one by itself, and so is each sequential file. Groups have to be small,
// and locks that transactions take are taken by transactions only, in one mode or
// the other.
//
// A list is a read of all files below its directory at one revision, and a deletion
// of all below it one change. So these files are a group, too. Lists of one page
// without directories are recorded, of a prefix that ends in a slash.
//
// The attempts under one key are one write, which happens once, before the first
// answer to any of them. No two writes have the same content, so that what is
// seen of a file tells which write it is of; one of unknown outcome happened if
// anybody saw its content. Revisions grow with every change and are told with
// every answer, which leaves the model little choice.
//
// A guard by a lock of the group is judged by the model. One by another lock may
// or may not hold there; CheckEvents judges it.
//
// # Events
//
// CheckEvents compares what watchers were told: it is one and the same history,
// without gap or double, and what was answered is in it: each write and grant at
// its revision, each write once, none that had no effect, and none under a guard
// before the grant or after its release.
//
// # What is checked
//
// Check takes each path or group by itself, which is sound as linearizability is
// local, and keeps the search short: work on a path should be over after some
// hundred attempts, and its sessions closed. Beside that the whole record is
// gone through for what a look at one path does not tell: tokens and revisions
// grow over the cell in the order of time, a key has one answer, no session
// ended before its lease did, a queue is served in its order.
package history
