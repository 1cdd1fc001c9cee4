package cli

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/internal/certs"
)

func (a *app) certificatesMade() runner {
	return group{use: "certs", short: "Make certificates for a cell and its clients", like: "cert tls ca", sub: []runner{&makeCerts{app: a}}}
}

type makeCerts struct {
	*app
	dir               string
	replicas, clients []string
	days              int
}

func (c *makeCerts) command() command {
	return command{
		use: "new --dir DIR --replica ID=HOST ... [--client NAME ...]", short: "Make a CA, and certificates that it signs",
		like: "make create init generate", alone: true,
		long: `Makes a CA, and certificates for the replicas of a cell and for its clients, if
you have no CA of your own. Files are PEM; only their owner can read the keys.
An existing CA in DIR is used, so replicas and clients can be added later. No
file is overwritten.

A replica's certificate serves its API and its connections to other replicas.
HOST is the name or address at which others reach it, or several, separated by
commas. A client's certificate authenticates as user:NAME.

The holder of ca-key.pem can make a certificate for any name: keep it on a host
without replicas.`,
		exits: "0 done, 1 a file exists or cannot be written, 2 wrong usage",
		example: `  stout certs new --dir certs --replica r1=10.0.0.1 --replica r2=10.0.0.2 \
    --replica r3=10.0.0.3 --client billing
  stout certs new --dir certs --client nightly --days 30`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.dir, "dir", "", "`directory` for the files, created if missing")
			f.StringArrayVar(&c.replicas, "replica", nil, "`ID=HOST` of a replica; repeat for each")
			f.StringArrayVar(&c.clients, "client", nil, "`name` of a client; repeat for each")
			f.IntVar(&c.days, "days", 365, "validity of the certificates in `days`; a new CA is valid for ten years")
			_ = cobra.MarkFlagDirname(f, "dir")
		},
	}
}

// prepareAlone is prepare for commands that do not call a cell.
func (a *app) prepareAlone(*cobra.Command, []string) error {
	err := a.checkFlags()
	a.started = err == nil
	return err
}

func (c *makeCerts) run(context.Context, []string) error {
	switch {
	case c.dir == "":
		return usagef("--dir is missing: the directory for the files").hint("stout certs new --dir certs --replica r1=127.0.0.1")
	case c.days < 1 || c.days > 3650:
		return usagef("--days is %d; it must be from 1 to 3650", c.days)
	}
	o := certs.Order{Dir: c.dir, Clients: c.clients, Ends: time.Now().AddDate(0, 0, c.days)}
	for _, text := range c.replicas {
		r, err := certs.ParseReplica(text)
		if err != nil {
			return usagef("--replica %v", err)
		}
		o.Replicas = append(o.Replicas, r)
	}
	if err := o.Check(); err != nil {
		return usagef("%v", err)
	}
	made, err := o.Make()
	if err != nil {
		return &failure{code: exitFailed, message: err.Error()}
	}
	if c.ui.json {
		return c.ui.object(struct {
			Files []string `json:"files"`
		}{made.Files})
	}
	if !c.ui.quiet {
		c.ui.printf("%s\n", strings.Join(made.Files, "\n"))
		c.showUse(o, made)
	}
	return nil
}

// showUse prints how to use the files.
func (c *makeCerts) showUse(o certs.Order, made certs.Made) {
	at := func(name string) string { return filepath.Join(o.Dir, name) }
	if made.Ends.Before(o.Ends.Truncate(time.Second)) {
		c.ui.note("valid only until %s, when the CA in %s ends", made.Ends.Format(time.DateOnly), at("ca.pem"))
	} else {
		c.ui.note("valid until %s", made.Ends.Format(time.DateOnly))
	}
	if len(o.Replicas) > 0 {
		id := o.Replicas[0].ID
		c.ui.note("replica %s: stoutd --api-cert %s --api-key %s --raft-cert %s --raft-key %s --raft-ca %s …",
			id, at(id+".pem"), at(id+"-key.pem"), at(id+".pem"), at(id+"-key.pem"), at("ca.pem"))
	}
	if len(o.Clients) > 0 {
		name := o.Clients[0]
		c.ui.note("client %s: stout --ca-cert %s --cert %s --key %s …", name, at("ca.pem"), at(name+".pem"), at(name+"-key.pem"))
	}
	if made.CA {
		c.ui.note("the holder of %s can make a certificate for any name: keep it on a host without replicas", at("ca-key.pem"))
	}
}
