package cli

import (
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/internal/certs"
)

func (a *app) certsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "certs",
		Short:             "Make certificates for a cell and its clients",
		SuggestFor:        []string{"cert", "tls", "ca"},
		Args:              cobra.NoArgs,
		PersistentPreRunE: a.prepareAlone,
		RunE:              func(*cobra.Command, []string) error { return usagef("say what to do: stout certs new") },
	}
	var (
		dir               string
		replicas, clients []string
		days              int
	)
	made := &cobra.Command{
		Use:   "new --dir DIR --replica ID=HOST ... [--client NAME ...]",
		Short: "Make a CA, and certificates that it signs",
		Long: `Makes a CA, and certificates for the replicas of a cell and for its clients, for
those who have no CA that does. Files are PEM, keys are their owner's alone to
read. The CA of DIR signs where there is one, so that replicas and clients can
be added later. Nothing is overwritten.

A replica's certificate is for its API and for the other replicas: HOST is the
name or address by which others dial it, or several, separated by commas. With
a client's certificate whoever has its key is user:NAME.

Who has ca-key.pem can make a certificate of any name: keep it where no replica
runs.

Exit codes: 0 done, 1 a file is there already or can't be written, 2 wrong
usage.`,
		Example: `  stout certs new --dir certs --replica r1=10.0.0.1 --replica r2=10.0.0.2 \
    --replica r3=10.0.0.3 --client billing
  stout certs new --dir certs --client nightly --days 30`,
		Args:              cobra.NoArgs,
		SuggestFor:        []string{"make", "create", "init", "generate"},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return a.makeCerts(dir, replicas, clients, days)
		},
	}
	flags := made.Flags()
	flags.StringVar(&dir, "dir", "", "`directory` for the files, which is made where it is missing")
	flags.StringArrayVar(&replicas, "replica", nil, "`ID=HOST` of a replica; one for each")
	flags.StringArrayVar(&clients, "client", nil, "`name` of a client; one for each")
	flags.IntVar(&days, "days", 365, "for how many `days` the certificates are good; a new CA is for ten years")
	_ = made.MarkFlagDirname("dir")
	cmd.AddCommand(made)
	return cmd
}

// prepareAlone is prepare for a command that asks nothing of a cell.
func (a *app) prepareAlone(*cobra.Command, []string) error {
	err := a.checkFlags()
	a.started = err == nil
	return err
}

func (a *app) makeCerts(dir string, replicas, clients []string, days int) error {
	switch {
	case dir == "":
		return usagef("where to? --dir is missing").hint("stout certs new --dir certs --replica r1=127.0.0.1")
	case days < 1 || days > 3650:
		return usagef("--days is %d; it is within 1..3650", days)
	}
	o := certs.Order{Dir: dir, Clients: clients, Ends: time.Now().AddDate(0, 0, days)}
	for _, text := range replicas {
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
	if a.ui.json {
		return a.ui.object(struct {
			Files []string `json:"files"`
		}{made.Files})
	}
	if !a.ui.quiet {
		for _, name := range made.Files {
			a.ui.printf("%s\n", name)
		}
		a.sayUse(o, made)
	}
	return nil
}

// sayUse says what the files are for.
func (a *app) sayUse(o certs.Order, made certs.Made) {
	at := func(name string) string { return filepath.Join(o.Dir, name) }
	if made.Ends.Before(o.Ends.Truncate(time.Second)) {
		a.ui.note("good until %s only, when the CA in %s ends", made.Ends.Format(time.DateOnly), at("ca.pem"))
	} else {
		a.ui.note("good until %s", made.Ends.Format(time.DateOnly))
	}
	if len(o.Replicas) > 0 {
		id := o.Replicas[0].ID
		a.ui.note("replica %s: stoutd --api-cert %s --api-key %s --raft-cert %s --raft-key %s --raft-ca %s …",
			id, at(id+".pem"), at(id+"-key.pem"), at(id+".pem"), at(id+"-key.pem"), at("ca.pem"))
	}
	if len(o.Clients) > 0 {
		name := o.Clients[0]
		a.ui.note("client %s: stout --ca-cert %s --cert %s --key %s …", name, at("ca.pem"), at(name+".pem"), at(name+"-key.pem"))
	}
	if made.CA {
		a.ui.note("who has %s can make a certificate of any name: keep it where no replica runs", at("ca-key.pem"))
	}
}
