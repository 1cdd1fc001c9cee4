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
		long: `Makes a CA, and certificates for the replicas of a cell and for its clients, for
those who have no CA that does. Files are PEM, keys are their owner's alone to
read. The CA of DIR signs where there is one, so that replicas and clients can
be added later. Nothing is overwritten.

A replica's certificate is for its API and for the other replicas: HOST is the
name or address by which others dial it, or several, separated by commas. With
a client's certificate whoever has its key is user:NAME.

Who has ca-key.pem can make a certificate of any name: keep it where no replica
runs.`,
		exits: "0 done, 1 a file is there already or can't be written, 2 wrong usage",
		example: `  stout certs new --dir certs --replica r1=10.0.0.1 --replica r2=10.0.0.2 \
    --replica r3=10.0.0.3 --client billing
  stout certs new --dir certs --client nightly --days 30`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.dir, "dir", "", "`directory` for the files, which is made where it is missing")
			f.StringArrayVar(&c.replicas, "replica", nil, "`ID=HOST` of a replica; one for each")
			f.StringArrayVar(&c.clients, "client", nil, "`name` of a client; one for each")
			f.IntVar(&c.days, "days", 365, "for how many `days` the certificates are good; a new CA is for ten years")
			_ = cobra.MarkFlagDirname(f, "dir")
		},
	}
}

// prepareAlone is prepare for a command that asks nothing of a cell.
func (a *app) prepareAlone(*cobra.Command, []string) error {
	err := a.checkFlags()
	a.started = err == nil
	return err
}

func (c *makeCerts) run(context.Context, []string) error {
	switch {
	case c.dir == "":
		return usagef("where to? --dir is missing").hint("stout certs new --dir certs --replica r1=127.0.0.1")
	case c.days < 1 || c.days > 3650:
		return usagef("--days is %d; it is within 1..3650", c.days)
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
		c.sayUse(o, made)
	}
	return nil
}

// sayUse says what the files are for.
func (c *makeCerts) sayUse(o certs.Order, made certs.Made) {
	at := func(name string) string { return filepath.Join(o.Dir, name) }
	if made.Ends.Before(o.Ends.Truncate(time.Second)) {
		c.ui.note("good until %s only, when the CA in %s ends", made.Ends.Format(time.DateOnly), at("ca.pem"))
	} else {
		c.ui.note("good until %s", made.Ends.Format(time.DateOnly))
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
		c.ui.note("who has %s can make a certificate of any name: keep it where no replica runs", at("ca-key.pem"))
	}
}
