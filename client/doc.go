// Package client is the Go SDK of Stout, a lock service in the manner of
// Chubby. It needs the standard library and package lockapi only.
//
//	cell, err := client.New("http://10.0.0.1:7101", "http://10.0.0.2:7101", "http://10.0.0.3:7101")
//	session, err := cell.NewSession(ctx, client.Name("billing@host7"))
//	defer session.Close(ctx)
//	err = session.Do(ctx, "/billing/leader", func(ctx context.Context, held *client.Held) error {
//		return work(ctx, held.Token())
//	})
//
// Do waits for the lock, calls the function, and releases the lock. The
// function's context ends with the caller's context, for example on Ctrl-C. It
// also ends with the hold, before another session can get the lock.
//
// Lock and Unlock are for holds that do not fit in one function. They end as
// follows:
//
//	held, err := session.Lock(ctx, "/billing/leader") // ctx bounds the wait only
//	defer held.Unlock(ctx)
//	err = work(held.Context(), held.Token())          // continues after ctx has ended
//
// Held.Context does NOT end when the context given to Lock does, so that a lock
// outlives the request, or the time-out, under which it was taken. Use Do to
// have both.
//
// # Sessions
//
// A Session is this program's lease on the cell: when it dies, its locks are
// freed. A goroutine keeps it alive in the background. The client counts a
// local lease. It runs for the ttl from the instant at which a keepalive was
// sent, plus the time for which the server reports that it held the call. This
// end is never later than the server's, so the local lease ends first, and no
// other session can get a lock while it runs. The clock of the lease keeps
// running while the machine sleeps (CLOCK_BOOTTIME on Linux), and the same
// clock ends a hold's context. After a sleep that outlasted the lease, the
// first look at Held.Context finds that it has ended. Contexts derived from it,
// and goroutines that wait for its end, depend on a timer of the same clock. It
// fires as soon as the machine is awake (on Linux; within a second elsewhere).
//
// One session serves a whole program; each Lock uses a connection only while it
// waits. If a program ends without Close, its locks expire after the ttl and
// their lock-delays.
//
// # Jeopardy
//
// When the local lease ends without an answer from the cell, the session is in
// Jeopardy: the client cannot know whether the session is alive. The contexts
// of all its holds end at that instant, and the session keeps trying for the
// grace period. If an answer comes, it is Safe again. Otherwise, or when the
// cell reports the session as gone, it is Expired, and a new session is needed.
//
// A hold that has ended stays ended, so interrupted work does not resume by
// itself. Once the session is Safe again, Held.Resume asks the cell. It returns
// a new Held for the same grant, with the same token, or ErrLockLost. If the
// hold will not be resumed, unlock it like any other. Until then the cell
// counts it as held, and another Lock on the same path waits for it.
//
// After each change of master the client reads the session once. A hold that
// the cell no longer knows ends with ErrLockLost. A new master may not know
// that this client has received a grant, and may revoke it; the client then
// requests that grant again. Grants and queue positions that this session does
// not know are released.
//
// # What a holder must do itself
//
// The locks are advisory, and a clock does not protect against everything. A
// process may pause between reading its lease and writing to a disk, or a
// request may travel for a long time. Either then acts when another session has
// the lock. Therefore:
//
//   - Do the work under the context that Do gives, or under Held.Context, and
//     stop when it ends. If stopping takes time, begin while
//     Held.Remaining still leaves enough.
//   - Send Held.Token with every request to the protected resource, which
//     must refuse a token lower than the highest it has seen. Tokens only
//     grow, across releases, changes of master and restarts, unless an old
//     copy of a data directory is restored. Or send Held.Sequencer, and
//     let the receiver call Client.CheckSequencer.
//   - If the resource can do neither, LockDelay at least delays the next grant
//     of a lock after its holder's session has expired.
//   - If you use Lock, always call Unlock, and check its error if
//     it matters that the lock was held to the end. Held.Unlock explains a nil
//     error after a lost answer.
//
// # Files
//
// A path may name both a lock and a small file; they are independent.
// Client.Get, List and ReadDir read files. Client.Put, Create,
// CreateSequential, Delete and DeleteBelow change them, and a Txn makes several
// changes as one. A Session has the same methods for changes of its own.
//
//	stat, err := session.Put(ctx, "/billing/primary", addr, client.Ephemeral(), client.While(held))
//
// Each file change made through a Session happens exactly once. The call
// carries an idempotency key and is repeated under it; the cell remembers the
// answer to that key as long as the session lives. A change made through a
// Client happens at most once, because the cell has no session to keep an
// answer for. Such a call is repeated only if it certainly had no effect;
// otherwise it returns ErrOutcomeUnknown.
//
// IfRevision and IfAbsent make a change only if the file is as the caller
// expects. While makes it only while a hold lasts, as the cell counts it. The
// refusals are ErrPrecondition and ErrNotHeld. With ReturnCurrent,
// ErrPrecondition carries the present file, so that a retry loop needs one call
// per attempt.
//
// # Events
//
// Client.Watch yields every change of files and locks after a revision, in
// order, without gaps or repeats. It reads from any healthy replica and moves
// to another when that one fails. Watches of one Client for the same types of
// events share a stream. If the caller came too late and old events
// are gone, Watch yields an event with Event.Compacted set. Client.Follow
// handles the usual case: it yields the existing files, then their changes.
// Package recipe has common patterns built from sessions, files and events.
//
// # Access
//
// While access control is on, a call needs a credential: a token, which
// Config.Token supplies for each attempt, or a client certificate. A call without
// the needed right gets ErrPermissionDenied; a call with an unknown credential
// gets ErrUnauthenticated. When rights are revoked, a waiting Lock ends, a hold
// stays, and a Watch omits paths that may no longer be read. Package admin has
// the calls of operators, which manage rights, members and sessions.
//
// # TLS
//
// Use https URLs for a cell with TLS. Config.TLS sets the CAs that verify the
// replicas and the certificate that the client presents. GetClientCertificate of
// a tls.Config may return a new certificate at any time. The client sends no
// request to a replica that it does not trust, and passes over it like one that
// is down.
//
// # Finding the cell
//
// One URL is enough for a running client. It asks the master for the replicas,
// and repeats that, so that it finds the cell even after each machine was
// replaced. A DNS name means all replicas, also at the program's start;
// the client resolves it again while it runs. New lists the forms.
//
//	cell, err := client.New("dns:stout.prod.example:7101")
//
// A client asks two seconds after its first answer, then once in 30 to 60
// s. It asks within 5 s after a change of master or the failure of a replica,
// and within a second if no replica answers. It does so while calls, sessions
// or watches use it. It keeps the URLs that it was given. It tries them before
// a learned URL that has never answered. It accepts a list only from the master
// of its own cell; its answers are never older than what the client knows.
// OnlyURLs turns the search off. Close ends a search that is under way, for
// example before a synctest bubble ends.
//
// # Masters and retries
//
// Calls go to the master and follow it silently when it changes. If the
// connection to a replica fails, or its answer is late, the client passes over
// it until it has answered a probe. A late answer is excused while the replica
// answers other calls as the master and is only busy. A keepalive that is late
// for its lease is sent to several replicas at once. When a client has many
// sessions, only a few of them ask at a time until each has reached a new
// master. If the master's URL, as the cell names it, cannot be reached from
// here, another replica is asked to forward.
//
// A hanging replica does not cost a time-out. After 300 ms of silence (more on
// a way known to be slow) the client also asks the next replica, and then one
// after another; the first conclusive answer wins. Only calls that may run
// twice at a time are sent so. Before any other call, a read finds the master
// instead. A master may hold a call on purpose or be busy with others; that
// starts no second attempt, so a healthy cell receives each call once.
//
// The client repeats reads, acquires, releases, keepalives, the opening of a
// session and a session's file changes until their context ends. It pauses 25
// ms to 1 s between attempts. It repeats them when they could not be delivered,
// when their answer was lost, or when the cell has no master or does not know
// the outcome. Repeating any of these does not do their work twice. Give a
// deadline to a context that has no other end. A refusal is never repeated.
//
// Handles distinguish the holds of a session. The session makes a new one for
// each hold and never uses it again. If a request arrives after its caller has
// given up, the session finds the grant and releases it.
//
// # Checks of answers
//
// The client checks each answer against its request. A grant must have the
// requested path, session, handle and mode, and a token above all earlier ones.
// A lease must not exceed the session's ttl. Epochs and revisions must not go
// back. A file's content must match its stat. An answer that fails a check
// becomes ErrInternal; it makes no hold and extends no lease. If another
// replica has been asked as well, the client waits for that answer. The same
// applies to an answer that no replica gives, such as a web server's page. A
// master's URL that would lead from https to http is not followed, unless the
// client was given it; the replica that named it is asked to forward instead.
// Pauses separate all repeats, regardless of the answers and however fast they
// come.
//
// # Errors
//
// A refusal is a *lockapi.Error, for which errors.Is holds with ErrLockHeld and
// the other codes; errors.As gives the holders and other details. If a call's
// context ends, errors.Is holds with the context's error. It also holds with
// ErrNoMaster if the call certainly had no effect, or with ErrOutcomeUnknown if
// it may have had one; and with ErrNoAnswer if no replica answered. If a
// different cell answers (for example one restored from a backup), the error is
// ErrOtherCell, and the client ignores the content of that answer.
//
// # Concurrency
//
// Client, Session and Held are safe for concurrent use. Each Session has one
// goroutine, which ends on Close or when the session expires.
//
// # Inside
//
// The types of this package, each in a file of its name or the named one, and
// the duty of each:
//
//	Client             shared by its sessions
//	  call.Caller      makes calls: repeats them, follows the master (internal/call)
//	    call.Call      one call: its request and the record of its attempts
//	  limiter          bounds how many sessions make an immediate call at a time
//	  high             the highest token, and the highest revision, seen (verify.go)
//	  feeds, feed      the streams of events that the watches share
//	watcher, follower  a loop over events: its position, and its feed (watcher.go, feed.go, follow.go)
//	watch              reads events, over one connection after another
//	sender, Txn        changes files, with or without a session (write.go, txn.go)
//	Session            its five parts below each have their own mutex
//	  lease            its state by the clock and the end of the local lease
//	  acquisitions     its waits, holds and releases, by handle
//	  keeper           the goroutine that keeps it alive (keepalive.go)
//	  reconciler       compares the local holds with the cell's (reconcile.go)
//	  window           bounds the writes under way to the answers that the cell remembers (write.go)
//	acquisition        one handle, from the first request to its release
//	Held, holdContext  the caller's view of a hold; a context that asks the clock (held.go)
//
// The lease's mutex may be held when another is taken, never the other way
// round.
package client
