package hold

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muesli/termenv"

	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/fakecell"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

// asApp returns an app that asks the given servers.
func asApp(t *testing.T, h fakecell.Hosts, servers ...string) *app.App {
	c := fakecell.Client(t.Cleanup, h, servers...)
	discard := ui.NewStream(io.Discard, termenv.Ascii)
	return &app.App{UI: &ui.UI{Out: discard, Err: discard}, Via: h, Client: c, Admin: admin.New(c), Options: app.Options{Servers: servers, Timeout: app.DefaultTimeout}}
}

// A wait ends in time although its messages are not read.
func TestWaitWatchOfABlockedTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := asApp(t, fakecell.Hosts{}, "http://r1", "http://r2")
		unread, to := io.Pipe()
		a.Options.Timeout = time.Minute
		a.UI = &ui.UI{Err: ui.NewStream(ui.NewNotices(to), termenv.Ascii), Live: true, ErrWidth: 40}
		ctx, giveUp := context.WithCancelCause(t.Context())
		began := time.Now()
		end := (&holder{a}).newWaitWatch(lockFlags{path: "/a", paths: []string{"/a"}}).start(ctx, giveUp)
		<-ctx.Done()
		end()
		if took := time.Since(began); took != time.Minute || !errors.Is(context.Cause(ctx), errSilence) {
			t.Errorf("given up after %v, because %v", took, context.Cause(ctx))
		}
		unread.Close()
	})
}

// Holders that the cell counts but does not show count here as well.
func TestInTheWay(t *testing.T) {
	holders := make([]lockapi.Holder, 12)
	if got := inTheWay("/a", holders[:1], 0, 0); strings.Contains(got, "1 holder") {
		t.Errorf("one holder goes by its name: %q", got)
	}
	for more, want := range map[int]string{0: "/a has 12 holders", 1000: "/a has 1012 holders"} {
		if got := inTheWay("/a", holders, more, 0); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
