package files

import (
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muesli/termenv"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/client/stouttest"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

// A session that ended while stout was stopped has its exit code, although the
// command ended before stout learned of it. A lease that has merely run out has not.
func TestEndedUnwatched(t *testing.T) {
	for expires, want := range map[bool]int{true: exit.Lost, false: 7} {
		cell := stouttest.New(t, stouttest.Options{})
		var later atomic.Int64
		began := time.Now()
		c := cell.Client(func(o *client.Config) {
			o.Grace = 24 * time.Hour
			o.Clock = func() time.Duration { return time.Since(began) + time.Duration(later.Load()) }
		})
		session, err := c.NewSession(t.Context(), client.TTL(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		cell.Lose(c) // it learns nothing
		if expires {
			cell.ExpireSession(session.ID())
		}
		later.Store(int64(time.Hour))
		a := &app.App{Client: c, Admin: admin.New(cell.Client())}
		a.UI = &ui.UI{Out: ui.NewStream(io.Discard, termenv.Ascii), Err: ui.NewStream(io.Discard, termenv.Ascii)}
		put := &putFile{App: a, path: "/a", ttl: time.Minute, cmd: []string{"sh", "-c", "exit 7"}}
		f, _ := errors.AsType[*exit.Failure](put.runBeside(t.Context(), session, lockapi.FileStat{}, nil))
		if f == nil || f.Code != want {
			t.Errorf("expired %t: it ended with %v", expires, f)
		}
		cell.Mend(c)
	}
}
