package members

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/internal/certs"
)

func certsCommand(a *app.App) app.Command {
	return app.Command{
		Use: "certs", Short: "Make certificates for a cell and its clients", SuggestFor: "cert tls ca",
		Sub: []app.Command{(&makeCerts{App: a}).command(), (&makeCerts{App: a}).renewal()},
	}
}

type makeCerts struct {
	*app.App
	dir               string
	replicas, clients []string
	days              int
}

func (c *makeCerts) command() app.Command {
	return app.Command{
		Run: c.run,
		Use: "new --dir DIR --replica ID=HOST ... [--client NAME ...]", Short: "Make a CA, and certificates that it signs",
		SuggestFor: "make create init generate", Local: true,
		Long: `Makes a CA, and certificates for the replicas of a cell and for its clients, if
you have no CA of your own. Files are PEM; only their owner can read the keys.
An existing CA in DIR is used, so replicas and clients can be added later. No
file is overwritten.

A replica's certificate serves its API and its connections to other replicas.
HOST is the name or address at which others reach it, or several, separated by
commas. A client's certificate authenticates as user:NAME.

The holder of ca-key.pem can make a certificate for any name: keep it on a host
without replicas.`,
		Exits: "0 done, 1 a file exists or cannot be written, 2 wrong usage",
		Example: `  stout certs new --dir certs --replica r1=10.0.0.1 --replica r2=10.0.0.2 \
    --replica r3=10.0.0.3 --client billing
  stout certs new --dir certs --client nightly --days 30`,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.dir, "dir", "", "`directory` for the files, created if missing")
			f.StringArrayVar(&c.replicas, "replica", nil, "`ID=HOST` of a replica; repeat for each")
			f.StringArrayVar(&c.clients, "client", nil, "`name` of a client; repeat for each")
			f.IntVar(&c.days, "days", 365, "validity of the certificates in `days`; a new CA is valid for ten years")
			_ = cobra.MarkFlagDirname(f, "dir")
		},
	}
}

func (c *makeCerts) renewal() app.Command {
	return app.Command{
		Use: "renew [NAME]... --dir DIR", Short: "Renew certificates in place", SuggestFor: "extend rotate reissue", Local: true,
		Long: `Issues certificates in DIR anew, with the same names, uses and keys, signed by
the CA in DIR. Without NAME it renews all that this CA has signed. Each file is
replaced in one step. Copy the new NAME.pem over the old one on each host:
stoutd and stout read it again while they run.`,
		Exits: "0 done, 1 a file cannot be read or written, 2 wrong usage",
		Example: `  stout certs renew --dir certs
  stout certs renew --dir certs r1 r2 --days 90`,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.dir, "dir", "", "`directory` of the CA and the certificates")
			f.IntVar(&c.days, "days", 365, "validity of the certificates in `days`, at most until the CA expires")
			_ = cobra.MarkFlagDirname(f, "dir")
		},
		Run: c.renew,
	}
}

func (c *makeCerts) renew(_ context.Context, names []string) error {
	if err := c.check(); err != nil {
		return err
	}
	made, err := certs.Renew(c.dir, names, time.Now().AddDate(0, 0, c.days))
	if err != nil {
		return exit.Errorf(exit.Failed, "%v", err)
	}
	return c.show(made, func() { c.UI.Note("valid until %s", made.Ends.Format(time.DateOnly)) })
}

func (c *makeCerts) show(made certs.Made, more func()) error {
	if c.UI.JSON {
		return c.UI.Object(struct {
			Files []string `json:"files"`
		}{made.Files})
	}
	if !c.UI.Quiet {
		c.UI.Printf("%s\n", strings.Join(made.Files, "\n"))
		more()
	}
	return nil
}

func (c *makeCerts) check() error {
	switch {
	case c.dir == "":
		return exit.Usagef("--dir is missing: the directory for the files").Hint("stout certs new --dir certs --replica r1=127.0.0.1")
	case c.days < 1 || c.days > 3650:
		return exit.Usagef("--days is %d; it must be from 1 to 3650", c.days)
	}
	return nil
}

func (c *makeCerts) run(context.Context, []string) error {
	if err := c.check(); err != nil {
		return err
	}
	o := certs.Order{Dir: c.dir, Clients: c.clients, Ends: time.Now().AddDate(0, 0, c.days)}
	for _, text := range c.replicas {
		r, err := certs.ParseReplica(text)
		if err != nil {
			return exit.Usagef("--replica %v", err)
		}
		o.Replicas = append(o.Replicas, r)
	}
	if err := o.Check(); err != nil {
		return exit.Usagef("%v", err)
	}
	made, err := o.Make()
	if err != nil {
		return exit.Errorf(exit.Failed, "%v", err)
	}
	return c.show(made, func() { c.showUse(o, made) })
}

func (c *makeCerts) showUse(o certs.Order, made certs.Made) {
	at := func(name string) string { return filepath.Join(o.Dir, name) }
	if made.Ends.Before(o.Ends.Truncate(time.Second)) {
		c.UI.Note("valid only until %s, when the CA in %s ends", made.Ends.Format(time.DateOnly), at("ca.pem"))
	} else {
		c.UI.Note("valid until %s", made.Ends.Format(time.DateOnly))
	}
	if len(o.Replicas) > 0 {
		id := o.Replicas[0].ID
		c.UI.Note("replica %s: stoutd --api-cert %s --api-key %s --raft-cert %s --raft-key %s --raft-ca %s …",
			id, at(id+".pem"), at(id+"-key.pem"), at(id+".pem"), at(id+"-key.pem"), at("ca.pem"))
	}
	if len(o.Clients) > 0 {
		name := o.Clients[0]
		c.UI.Note("client %s: stout --ca-cert %s --cert %s --key %s …", name, at("ca.pem"), at(name+".pem"), at(name+"-key.pem"))
	}
	if made.CA {
		c.UI.Note("the holder of %s can make a certificate for any name: keep it on a host without replicas", at("ca-key.pem"))
	}
}
