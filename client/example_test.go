package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Do a leader's work only while being the leader.
func Example() {
	ctx := context.Background()
	cell, err := client.New(serve(nil))
	if err != nil {
		log.Fatal(err)
	}
	defer cell.Close()

	session, err := cell.NewSession(ctx, client.Name("billing@host7"))
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)

	// write is a request to the resource that the lock protects. It carries the
	// token, and ends with the hold.
	write := func(ctx context.Context, token uint64) error {
		fmt.Printf("writing with token %d, err %v\n", token, ctx.Err())
		return ctx.Err()
	}
	err = session.Do(ctx, "/billing/leader", func(ctx context.Context, held *client.Held) error {
		return write(ctx, held.Token())
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: writing with token 1, err <nil>
}

// Hold a lock for longer than one function runs. Held.Context does not end with
// the context that Lock received; that context only bounds the wait, here to
// ten seconds.
func ExampleSession_Lock() {
	ctx := context.Background()
	cell, _ := client.New(serve(nil))
	session, _ := cell.NewSession(ctx)
	defer session.Close(ctx)

	waiting, cancel := context.WithTimeout(ctx, 10*time.Second)
	held, err := session.Lock(waiting, "/disk/7")
	cancel()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holding:", held.Context().Err() == nil)
	if err := held.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("holding:", held.Context().Err() == nil)
	// Output:
	// holding: true
	// holding: false
}

func ExampleSession_TryLock() {
	ctx := context.Background()
	cell, _ := client.New(serve(nil))
	first, _ := cell.NewSession(ctx, client.Name("first"))
	defer first.Close(ctx)
	second, _ := cell.NewSession(ctx, client.Name("second"))
	defer second.Close(ctx)

	if _, err := first.TryLock(ctx, "/db/migrate"); err != nil {
		log.Fatal(err)
	}
	_, err := second.TryLock(ctx, "/db/migrate")
	fmt.Println(errors.Is(err, client.ErrLockHeld))
	fmt.Println(err)
	// Output:
	// true
	// lock_held: lock "/db/migrate" is held by "first" with token 1
}

// At most two workers run at once, and none waits for long.
func ExampleLimit() {
	ctx := context.Background()
	cell, _ := client.New(serve(nil))
	session, _ := cell.NewSession(ctx)
	defer session.Close(ctx)

	for worker := range 3 {
		_, err := session.Lock(ctx, "/gpu", client.Limit(2), client.Wait(20*time.Millisecond))
		fmt.Printf("worker %d: %t\n", worker, err == nil)
	}
	// Output:
	// worker 0: true
	// worker 1: true
	// worker 2: false
}

// The receiver of a request checks the sequencer that came with the request.
func ExampleClient_CheckSequencer() {
	ctx := context.Background()
	cell, _ := client.New(serve(nil))
	session, _ := cell.NewSession(ctx)
	defer session.Close(ctx)

	held, _ := session.Lock(ctx, "/disk/7")
	check, _ := cell.CheckSequencer(ctx, held.Sequencer())
	fmt.Println(held.Sequencer(), check.Valid)
	_ = held.Unlock(ctx)
	check, _ = cell.CheckSequencer(ctx, held.Sequencer())
	fmt.Println(held.Sequencer(), check.Valid)
	// Output:
	// exclusive:1:/disk/7 true
	// exclusive:1:/disk/7 false
}

// Follow a session's state, for instance to alert an operator.
func ExampleSession_Changed() {
	ctx := context.Background()
	cell, _ := client.New(serve(nil))
	session, _ := cell.NewSession(ctx)

	go session.Close(ctx)
	for {
		changed := session.Changed()
		state := session.State()
		if state == client.Expired {
			fmt.Println(state, session.Err())
			return
		}
		<-changed
	}
	// Output: expired stout: the session is closed
}

// Publish the primary's address while this program is the primary. A late
// primary can't overwrite its successor's address.
func ExampleSession_Put() {
	ctx := context.Background()
	cell, _ := client.New(serve(nil))
	session, _ := cell.NewSession(ctx)
	defer session.Close(ctx)

	held, _ := session.Lock(ctx, "/db/primary")
	stat, err := session.Put(ctx, "/db/primary", []byte("10.0.0.7:5432"), client.Ephemeral(), client.While(held))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("generation", stat.Generation)

	_ = held.Unlock(ctx)
	_, err = session.Put(ctx, "/db/primary", []byte("10.0.0.7:5432"), client.While(held))
	fmt.Println("not held:", errors.Is(err, client.ErrNotHeld))
	// Output:
	// generation 1
	// not held: true
}

// Change a file that other clients change as well. The error has the file's
// current content, so that the next try needs no read.
func ExampleIfRevision() {
	ctx := context.Background()
	cell, _ := client.New(serve(nil))
	session, _ := cell.NewSession(ctx)
	defer session.Close(ctx)
	first, _ := session.Create(ctx, "/counter", []byte("1"))
	_, _ = session.Put(ctx, "/counter", []byte("2"))

	_, err := session.Put(ctx, "/counter", []byte("3"), client.IfRevision(first.Revision), client.ReturnCurrent())
	var refused *lockapi.Error
	if errors.Is(err, client.ErrPrecondition) && errors.As(err, &refused) {
		fmt.Printf("it is %s at generation %d\n", refused.Current.Bytes(), refused.Current.Generation)
	}
	// Output: it is 2 at generation 2
}

// Move a file in one atomic change.
func ExampleTxn() {
	ctx := context.Background()
	cell, _ := client.New(serve(nil))
	session, _ := cell.NewSession(ctx)
	defer session.Close(ctx)
	_, _ = session.Put(ctx, "/todo/7", []byte("clean up"))

	file, _ := cell.Get(ctx, "/todo/7")
	done, err := session.Txn().
		If(client.WhenRevision("/todo/7", file.Revision)).
		Then(client.OpCreate("/done/7", file.Content), client.OpDelete("/todo/7")).
		Commit(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Succeeded, done.Results[0].File.Path, done.Results[1].Deleted.Deleted)
	// Output: true /done/7 true
}

func ExampleClient_List() {
	ctx := context.Background()
	cell, _ := client.New(serve(nil))
	for _, path := range []string{"/app/a", "/app/b/c", "/app/d", "/x"} {
		if _, err := cell.Put(ctx, path, []byte("content of "+path)); err != nil {
			log.Fatal(err)
		}
	}
	for file, err := range cell.List(ctx, "/app/", client.Contents()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %q\n", file.Path, file.Content)
	}
	// Output:
	// /app/a "content of /app/a"
	// /app/b/c "content of /app/b/c"
	// /app/d "content of /app/d"
}

// Follow the changes of a node, and continue after the last one seen.
func ExampleClient_Watch() {
	ctx := context.Background()
	cell, _ := client.New(serve(nil))
	first, _ := cell.Put(ctx, "/app/conf", []byte("a = 1"))
	_, _ = cell.Put(ctx, "/app/conf", []byte("a = 2"))
	_, _ = cell.Delete(ctx, "/app/conf")

	for event, err := range cell.Watch(ctx, first.Revision, client.OnPath("/app/conf")) {
		if err != nil {
			log.Fatal(err)
		}
		if event.Compacted != nil {
			continue // some events are gone: read the file again
		}
		fmt.Println(event.Revision, event.Type)
		if event.Type == lockapi.EventFileDeleted {
			break
		}
	}
	// Output:
	// 3 file_changed
	// 4 file_deleted
}

// Keep a map of the files in a directory.
func ExampleClient_Follow() {
	ctx := context.Background()
	cell, _ := client.New(serve(nil))
	_, _ = cell.Put(ctx, "/servers/a", []byte("10.0.0.1"))
	_, _ = cell.Put(ctx, "/servers/b", []byte("10.0.0.2"))

	servers := make(map[string]string)
	for change, err := range cell.Follow(ctx, "/servers/", client.Contents()) {
		switch {
		case err != nil:
			log.Fatal(err)
		case change.Synced:
			fmt.Println("at first:", servers)
			go cell.Delete(ctx, "/servers/a")
			continue
		case change.File == nil:
			delete(servers, change.Path)
		default:
			servers[change.Path] = string(change.File.Content)
		}
		if len(servers) == 1 && !change.Listed {
			break
		}
	}
	fmt.Println("at last:", servers)
	// Output:
	// at first: map[/servers/a:10.0.0.1 /servers/b:10.0.0.2]
	// at last: map[/servers/b:10.0.0.2]
}

func ExampleClient_ListLocks() {
	ctx := context.Background()
	cell, _ := client.New(serve(nil))
	session, _ := cell.NewSession(ctx)
	defer session.Close(ctx)
	for _, path := range []string{"/db/a", "/db/b", "/db/c", "/web/x"} {
		if _, err := session.TryLock(ctx, path); err != nil {
			log.Fatal(err)
		}
	}
	for lock, err := range cell.ListLocks(ctx, "/db/") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(lock.Path, lock.State)
	}
	// Output:
	// /db/a held
	// /db/b held
	// /db/c held
}
