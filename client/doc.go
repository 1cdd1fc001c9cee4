// Package client is the Go SDK of Stout, a lock service in the manner of
// Chubby. It needs the standard library and package lockapi only.
//
//	cell, err := client.New("http://10.0.0.1:7101", "http://10.0.0.2:7101", "http://10.0.0.3:7101")
//	session, err := cell.NewSession(ctx, client.WithName("billing@host7"))
//	defer session.Close(ctx)
//	err = session.Do(ctx, "/billing/leader", func(ctx context.Context, held *client.Held) error {
//		return work(ctx, held.Token())
//	})
//
// Do waits for the lock, calls the function, and releases the lock. The context
// of the function ends with the caller's, on Ctrl-C say, and with the hold:
// before anybody else can get the lock.
//
// Lock and Unlock are for holds that no function encloses. What ends what:
//
//	held, err := session.Lock(ctx, "/billing/leader") // ctx bounds the wait, and nothing else
//	defer held.Unlock(ctx)
//	err = work(held.Context(), held.Token())          // goes on when ctx has ended
//
// Held.Context does NOT end when the context given to Lock does, so that a lock
// outlives the request, or the time-out, under which it was taken. Use Do to
// have both.
//
// # Sessions
//
// A Session is this program's lease on the cell: what it holds is freed when it
// dies. It is kept alive in the background. The lease that counts here, the
// local lease, runs ttl from the instant at which a keepalive was sent, plus
// the time for which the server says that it held the call. That is never later
// than what the server counts, so the local lease ends first, and nobody else
// can get a lock while it runs. It is read off a clock that goes on while the
// machine sleeps (CLOCK_BOOTTIME on Linux), and so is the end of a hold's
// context: after a sleep that outlasted the lease, the first look at
// Held.Context finds it over. Contexts derived from it, and whoever waits for
// their end, hear of it from a timer on the same clock, as soon as the machine
// is awake (on Linux; within a second elsewhere).
//
// One session serves a whole program; each Lock takes a connection only while
// it waits. A program that ends without Close leaves its locks to expire after
// the ttl and their lock-delays.
//
// # Jeopardy
//
// When the local lease ends without an answer from the cell the session is in
// Jeopardy. It may live or not; nobody here can know. The contexts of all its
// holds end at that instant, and the session goes on trying for the grace
// period. If an answer comes, it is Safe again; else, or when the cell says so,
// it is Expired, and a new session is needed.
//
// A hold that is done stays done: work that was broken off does not begin again
// by itself. Once the session is Safe again, Held.Resume asks the cell and
// gives a new Held for the same grant, with the same token, or ErrLockLost. A
// hold that is not to be resumed must be unlocked like any other: until then
// the cell counts it as held, and another Lock on the same path waits for it.
//
// After each change of master the session is read once. A hold that the cell
// does not know of any more ends with ErrLockLost; one that the cell may take
// back, because the new master does not know that we were told of it, is asked
// for again; and what nobody here knows of is released.
//
// # What a holder must do itself
//
// The locks are advisory, and no clock protects against everything: a process
// that was paused between looking at its lease and writing to a disk, or a
// request that is under way for long, acts when the lock is somebody else's.
// So:
//
//   - Do the work under the context that Do gives, or under Held.Context, and
//     stop when it ends. What takes time to stop should begin to while
//     Held.Remaining still allows for it.
//   - Send Held.Token along with every request to what the lock protects, and
//     let that refuse a token lower than the highest it has seen. Tokens only
//     grow, over releases, changes of master and restarts, as long as nobody
//     puts back an old copy of a data directory. Or send Held.Sequencer, and
//     let the receiver ask with Client.CheckSequencer.
//   - Where the resource can do neither, LockDelay at least keeps a lock from
//     being granted anew for a while after its holder's session expired.
//   - Where you use Lock, call Unlock in any case, and look at its error where
//     it matters that the lock was held to the end. Held.Unlock says what a nil
//     is worth after a lost answer.
//
// # Files
//
// A path may name a small file as well as a lock; the two need not know of each
// other. Client.Get, List and ReadDir read files. Client.Put, Create,
// CreateSequential, Delete and DeleteBelow change them, and a Txn changes
// several as one; a Session has the same of its own.
//
//	stat, err := session.Put(ctx, "/billing/primary", addr, client.Ephemeral(), client.While(held))
//
// Who changes files by a Session has each change made exactly once: every such
// call carries a key, under which the cell remembers its answer for as long as
// the session lives, and is repeated under it. Who changes them by a Client has
// it made once at most, since there is nothing to remember the answer by: such
// a call is repeated only if it certainly had no effect, and else ends with
// ErrOutcomeUnknown.
//
// IfRevision and IfAbsent have a change made only where the file is as the
// caller believes, and While only while a hold lasts, as the cell sees it. What
// was refused so is ErrPrecondition or ErrNotHeld. With ReturnCurrent the former
// has what there is instead, so that a loop of changes makes one call a try.
//
// # Events
//
// Client.Watch tells every change of files and locks after a revision, in
// order, none twice and none left out, from whichever replica is well; it goes
// on by itself where that fails. That events are not kept any more, because the
// caller came too late, is a value for it to act on: Event.Compacted.
// Client.Follow does the usual thing: it tells the files that there are, then
// what becomes of them. Package recipe has what is most often built of sessions,
// files and events.
//
// # Access
//
// While access is on a call needs a credential: a token, which WithToken gives
// for each attempt, or a client's certificate. Who may not do what it asks for
// is told so by ErrPermissionDenied, and who is not known by
// ErrUnauthenticated. Rights that are taken away end a Lock that waits, and
// leave a hold alone; a Watch leaves out from then on what may not be read.
// Client.Access has the calls that say who may do what.
//
// # TLS
//
// A cell that speaks TLS is called by https URLs. NewWith and WithTLS, or
// Config.TLS, say by which CA its replicas are judged, and which certificate
// the client shows; GetClientCertificate of a tls.Config may give another one
// when that has changed. A replica that is not trusted is sent nothing, and
// passed over like one that is down.
//
// # Finding the cell
//
// One URL is enough for a client that runs: it asks the master where the replicas
// are, and goes on asking, so that it finds a cell whose every machine was
// replaced. A name of the DNS stands for all replicas, also when the program
// starts; it is looked up again while the client runs. New has the forms.
//
//	cell, err := client.New("dns:stout.prod.example:7101")
//
// A client asks about a second after its first answer, then once in 30 to 60 s, and
// within 5 s of a change of master or the failure of a replica; within a second,
// where nobody answers. It does so while it is used, by calls, sessions or watches.
// What it was given it keeps, and tries before anything that it was told and has not
// met. It takes the list of the cell that it speaks with only, and of the master,
// whose answers are never older than what it knows already. OnlyURLs turns it off.
// What is going on is ended by Close, at a bubble's end for instance.
//
// # Masters and retries
//
// Calls go to the master and follow it silently when it changes. A replica
// whose connection fails is passed over until it has answered a probe, and so is
// one that does not answer in time, unless it answers other calls as the master
// and is only busy. A keepalive that comes late for its lease is sent to several
// replicas at once. When a client has many sessions, a few of them ask at a time until each
// has met a new master. Where the master's URL, as the cell names it, cannot be
// reached from here, another replica is asked to forward.
//
// A replica that hangs costs no time-out: after 300 ms of silence (more on a
// way that is known to be slow) the next one is asked as well, then the one
// after it, and whoever settles the call first does. Only what may be under way
// twice is sent to two at a time; before Transfer and ReplaceMember a read
// finds the master. That a master holds a call on purpose, or is busy with
// others, is no reason: a cell that is well hears each call once.
//
// Reads, acquiring, releasing, keepalives, the opening of a session and a
// session's changes of files are repeated until their context ends, with pauses
// of 25 ms to 1 s, when they could not be delivered, their answer got lost, or
// the cell has no master or does not know the outcome. All of these may be
// repeated without doing their work twice. Give a deadline to a context that
// has no other end. ReplaceMember is repeated so, too, but by one call after
// another; Transfer and the changes of access are repeated only if they
// certainly had no effect, and else end with ErrOutcomeUnknown. A refusal is never repeated.
//
// Handles, which tell the holds of a session apart, are made up for every hold
// and never used again. Should a request arrive after its caller has given up,
// the session finds its grant and releases it.
//
// # What is not believed
//
// An answer is checked against what was asked: that a grant is of this path,
// session, handle and mode, with a token above those that were there before,
// that no lease is longer than the session's ttl, that epochs and revisions do
// not go back, that a file's content is the one that its stat describes.
// What fails the check is ErrInternal; it becomes no hold and extends no lease.
// While another replica is asked as well, its answer is waited for; so it is
// with what no replica answers, such as the page of a web server. A master's
// URL that would lead from https to http is not followed, unless the client was
// given it: the replica that has named it is asked to forward. Whatever is
// answered, and however fast, no call is repeated in a loop without pauses.
//
// # Errors
//
// A refusal is a *lockapi.Error, for which errors.Is holds with ErrLockHeld and
// the other codes, and errors.As gives holders and other details. A call whose
// context ended returns an error that Is the context's, and ErrNoMaster if it
// certainly had no effect or ErrOutcomeUnknown if it may have had; where not
// one replica answered it Is ErrNoAnswer, too. Where another cell answers than the
// one that the client has spoken with (it was restored from a backup, say), the
// error Is ErrOtherCell, and nothing that the other one says counts.
//
// # Concurrency
//
// Client, Session and Held are safe for concurrent use. Each Session has one
// goroutine, which Close or the session's expiry ends.
//
// # Inside
//
// The types of this package, and what each owns:
//
//	Client             shared by its sessions
//	  caller           makes calls: repeats them, follows the master
//	    targets        which replica to ask, and which to pass over until a probe
//	    finder         where replicas are: by the DNS, and by asking the cell
//	    sameCell       which cell counts
//	    exchanger      makes HTTP round trips; owns the connections
//	  limiter          how many sessions ask at a time for what is answered at once
//	  high             the highest token, and the highest revision, seen
//	watch, follower    a loop over events: its connection, and where it is
//	sender, Txn        what changes files, on behalf of a session or of nobody
//	call               one call: its request, and the account of its attempts
//	  hedge, race      asks other replicas where one is silent
//	Session            its next five parts each have a mutex of their own
//	  lease            its state by the clock, and the end of the local lease
//	  acquisitions     what it waits for, holds and is giving back, by handle
//	  keeper           the goroutine that keeps it alive
//	  reconciler       whether to compare what is held here with the cell, and doing so
//	  window           how many writes may be under way for the cell to remember all answers
//	acquisition        the way of one handle, from the first request to its release
//	Held, guarded      the caller's view of a hold; a context that asks the clock
//
// The lease's mutex may be held when another is taken, never the other way
// round.
package client
