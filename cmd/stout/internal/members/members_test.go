package members

import (
	"testing"

	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/fakecell"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
)

// asApp returns an app that asks the given servers.
func asApp(t *testing.T, h fakecell.Hosts, servers ...string) *app.App {
	c := fakecell.Client(t.Cleanup, h, servers...)
	return &app.App{UI: &ui.UI{}, Via: h, Client: c, Admin: admin.New(c), Options: app.Options{Servers: servers, Timeout: app.DefaultTimeout}}
}
