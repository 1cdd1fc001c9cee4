package inspect

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/muesli/termenv"

	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/fakecell"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
)

// asApp returns an app that asks the given servers.
func asApp(t *testing.T, h fakecell.Hosts, servers ...string) *app.App {
	c := fakecell.Client(t.Cleanup, h, servers...)
	return &app.App{UI: &ui.UI{}, Via: h, Client: c, Admin: admin.New(c), Options: app.Options{Servers: servers, Timeout: app.DefaultTimeout}}
}

// TestStatusOfTwoCells checks that replicas of a former cell, which may run
// after a recovery, are reported, with an exit code other than 0.
func TestStatusOfTwoCells(t *testing.T) {
	for name, tt := range map[string]struct {
		ids   [3]string
		check bool
		says  string
	}{
		"one cell":           {ids: [3]string{"a11ce", "a11ce", "a11ce"}},
		"two":                {ids: [3]string{"a11ce", "b0b", "b0b"}, says: "replicas of 2 cells answer|cell with id a11ce: http://r1|cell with id b0b: http://r2, http://r3"},
		"two, checked":       {ids: [3]string{"a11ce", "b0b", "b0b"}, check: true, says: "replicas of 2 cells answer|cell with id a11ce: http://r1|cell with id b0b: http://r2, http://r3"},
		"one tells none yet": {ids: [3]string{"a11ce", "", "a11ce"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := fakecell.Hosts{}
			for i, id := range tt.ids {
				h[fmt.Sprint("r", i+1)] = &fakecell.Host{Cell: fakecell.NewView(3, "r1", true), ID: id}
			}
			a := asApp(t, h, "http://r1", "http://r2", "http://r3")
			a.UI = &ui.UI{Out: ui.NewStream(io.Discard, termenv.Ascii), Err: ui.NewStream(io.Discard, termenv.Ascii), Quiet: tt.check}
			f, ok := errors.AsType[*exit.Failure]((&showStatus{App: a}).status(t.Context(), tt.check))
			if ok != (tt.says != "") || ok && f.Code != exit.Failed {
				t.Fatalf("%s: %+v", name, f)
			}
			if !ok {
				return
			}
			if text := strings.Join(append([]string{strings.SplitN(f.Message, ":", 2)[0]}, f.Details...), "|"); text != tt.says || f.Quiet {
				t.Errorf("%s: %q", name, text)
			}
			line := (&showStatus{App: a}).statusLine(t.Context()).(statusLook)
			if line.Error != f.Message || line.Cell == nil {
				t.Errorf("%s: a line of it says %q", name, line.Error)
			}
		})
	}
}
