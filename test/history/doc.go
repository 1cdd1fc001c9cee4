// Package history records what clients did to a cell over HTTP and the answers.
// It checks the record against sequential models of locks, of files and of keys.
//
//	recorder := history.NewRecorder()
//	c, err := client.Config{URLs: urls, Transport: recorder.Transport("c1", nil)}.New()
//	… // clients work, replicas fail
//	verdict := history.Check(recorder.Attempts(), time.Minute)
//
// The record consists of single HTTP requests, called attempts here: a call
// that a client retries is several of them. So the model does not need to know
// about retries, and the Go SDK and a plain HTTP client are checked alike.
//
// # Unknown outcomes
//
// An attempt with a lost answer, or with outcome_unknown, may take effect at
// any time after it was sent, or never. Once its session has ended it can have
// no effect. A reported queue position (202) is a grant that may come at any
// time until the position is given up. A grant to a wait without queue may be
// revoked if its call was lost, since no caller knows of it. An attempt that
// certainly had no effect by the contract (no_master, not_master, 423, 429, a
// refused connection) is not a step at all. If it had an effect nevertheless,
// the check finds it.
//
// The check first assumes that effects that no answer showed did not happen,
// which keeps the search short. If the record is then correct, the check is
// done. If not, everything that may have happened is tried.
//
// # Sessions
//
// For its client, a session's lease ends ttl after the sending of its last
// answered keepalive, plus the time for which the server held that call. From
// then on the session may end at any time in the model. Closing it ends it
// during the call.
//
// # Files
//
// A call about files is checked as the equivalent transaction. Files and locks
// that transactions name together are a group with one state. Every other file
// is a group by itself, and so is each sequential file. Groups must be small.
// Transactions alone may take the locks that a group contains, in one mode or
// the other.
//
// A list is a read of all files below its directory at one revision. A deletion
// of everything below a directory is one change. So these files are a group,
// too. Only lists of one page without directories are recorded, with a prefix
// that ends in a slash.
//
// The attempts under one key are one write. It happens once, before the first
// answer to any of them. All writes have different contents, so the content of
// a file shows which write it comes from. A write of unknown outcome happened
// if its content was seen. Revisions grow with every change and come with every
// answer, which leaves the model little choice.
//
// The model checks a guard by a lock of the group. A guard by another lock may
// or may not hold there; CheckEvents checks it.
//
// # Keys
//
// Calls through the door for Consul's clients are about keys. All calls about
// one directory of keys have one state: the keys, the locks at their paths, the
// sessions and their lock-delays. Calls of the API for these files and locks
// belong to it: reads, acquires that do not wait, and releases.
//
// The door does not tell the revision of a change. The model knows that it is
// above every revision that an earlier answer showed, and learns it from the
// first read. Stale reads are not steps of the model. CheckEvents compares them,
// and all other reads, with the events up to the index of the answer.
//
// # Events
//
// CheckEvents compares the events that watchers received. They must form one
// history without gap or duplicate. Every answer must agree with it: each write
// and grant is in it at its revision. Each write happens once. Writes, grants and
// deletions without effect do not appear, and no guarded write comes before the
// grant or after its release.
//
// # What is checked
//
// Check takes each path, group or directory of keys by itself. That is sound
// because linearizability is local, and it keeps the search short. Work on a path
// should be over after some hundred attempts, with its sessions closed. Other
// checks cover the whole record: tokens and revisions grow over the cell in the
// order of time, a key has one answer, no session ends before its lease, and a
// queue is served in order.
package history
