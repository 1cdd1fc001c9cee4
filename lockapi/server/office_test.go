package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/memlog"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
)

// Judge lets everybody do everything.
func (f *fakeMaster) Judge(*master.Caller) error { return nil }

// Do notes the call, runs the hook, and answers; the calls about access are served by
// an office of its own behind the fake.
func (f *fakeMaster) Do(ctx context.Context, by *master.Caller, stale bool, c lockapi.Call) (answer any, out master.Outcome, err error) {
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if out.Revision == 0 {
			out.Revision = f.revision
		}
	}()
	switch c := c.(type) {
	case *lockapi.OpenSession:
		answer, err = f.OpenSession(ctx, c)
	case *lockapi.KeepAlive:
		answer, err = f.Keepalive(ctx, c)
	case *lockapi.CloseSession:
		err = f.CloseSession(ctx, c)
	case *lockapi.GetSession:
		answer, err = f.Session(ctx, stale, c)
	case *lockapi.ListSessions:
		answer, err = f.Sessions(ctx, stale, c)
	case *lockapi.AcquireLock:
		answer, err = f.Acquire(ctx, c)
	case *lockapi.ReleaseLock:
		answer, err = f.Release(ctx, c)
	case *lockapi.GetLock:
		answer, err = f.Lock(ctx, stale, c)
	case *lockapi.ListLocks:
		answer, err = f.Locks(ctx, stale, c)
	case *lockapi.CheckSequencer:
		answer, err = f.CheckSequencer(ctx, stale, c)
	case *lockapi.FindDeadlocks:
		answer, err = f.Deadlocks(ctx, stale)
	case *lockapi.WriteFile:
		var done master.FileWritten
		done, err = f.WriteFile(ctx, c)
		answer, out.Replayed = done, done.Replayed
	case *lockapi.DeleteFiles:
		var done master.FilesDeleted
		done, err = f.DeleteFiles(ctx, c)
		answer, out.Replayed = done, done.Replayed
	case *lockapi.GetFile:
		answer, err = f.File(ctx, stale, c)
	case *lockapi.ListFiles:
		answer, err = f.Files(ctx, stale, c)
	case *lockapi.Transact:
		var done master.TransactionDone
		done, err = f.Transact(ctx, c)
		answer, out.Replayed = done, done.Replayed
	case *lockapi.GetHistory:
		answer, err = f.History(ctx, c)
	case *lockapi.ListMembers:
		answer, err = f.ListMembers(ctx, stale)
	case *lockapi.GetURLs:
		answer, err = f.GetURLs(ctx, stale)
	case *lockapi.AddMember:
		answer, err = lockapi.MemberChange{ID: c.ID, Directory: c.Directory}, f.Add(ctx, c)
	case *lockapi.SetMember:
		answer, err = f.Set(ctx, c)
	case *lockapi.RemoveMember:
		answer, err = lockapi.MemberRemoved{ID: c.ID, Removed: true}, f.Remove(ctx, c)
	case *lockapi.ReplaceMember:
		answer, err = lockapi.MemberChange{ID: c.ID, Directory: c.Directory}, f.Replace(ctx, c)
	case *lockapi.TransferMastership:
		answer, err = f.Transfer(ctx, c)
	default:
		return f.real(ctx, by, stale, c)
	}
	return answer, out, err
}

func (f *fakeMaster) real(ctx context.Context, by *master.Caller, stale bool, c lockapi.Call) (any, master.Outcome, error) {
	name := strings.TrimPrefix(fmt.Sprintf("%T", c), "*lockapi.")
	if err := f.enter(ctx, fmt.Sprintf("%s %+v", name, c), stale); err != nil {
		return nil, master.Outcome{}, err
	}
	f.mu.Unlock()
	return f.office().Do(ctx, by, stale, c)
}

// newOffice returns a master in office over a log in memory, made when it is first
// asked for. It ends with the test.
func newOffice(t testing.TB) func() *master.Master {
	return sync.OnceValue(func() *master.Master {
		log := memlog.New(1, memlog.Options{Broken: func(err error) { t.Error(err) }})
		log.SetDelay(0)
		n := log.Nodes()[0]
		m := master.New(n, n, master.Options{Cell: "test", ID: n.ID(), Version: "v1", LeaseTerm: 2 * time.Second, Clock: n.Clock, Logger: zerolog.Nop()})
		t.Cleanup(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = m.Close(ctx)
			log.Close()
		})
		log.Elect(n)
		for !m.Known().Self {
			time.Sleep(time.Millisecond)
		}
		return m
	})
}
