package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/lockapi"
)

// pick names which hold an operator means; what is empty matches all.
type pick struct {
	session, handle string
	anyHandle       bool
	token           uint64
}

func (p pick) matches(h lockapi.Holder) bool {
	return (p.session == "" || p.session == h.Session) &&
		(p.anyHandle || p.handle == h.Handle) &&
		(p.token == 0 || p.token == h.Token)
}

func (a *app) releaseCommand() *cobra.Command {
	var p pick
	cmd := &cobra.Command{
		Use:   "release PATH",
		Short: "Take a lock away from its holder",
		Long: `Releases the lock at PATH, whoever holds it. Where one holder holds it, that is
the one; where several share it, --token or --session says which. With
--session it also takes a place in the queue back.

The holder is not told, and may work on beside the next one until it asks:
stout lock does so every few seconds, other programs may never. Only fencing
tokens keep the two apart. stout session kill ends all that its session holds,
and tells it.

Exit codes: 0 released, 1 there was nothing to release or it is not clear which,
2 wrong usage, 3 the cell has no master, 4 no replica can be reached, 6 it is
not known whether it is done.`,
		Example: `  stout release /jobs/nightly
  stout release /pool/workers --token 4711`,
		SuggestFor:        []string{"unlock", "free", "unhold"},
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := validPath(args[0]); err != nil {
				return err
			}
			p.anyHandle = !cmd.Flags().Changed("handle")
			return a.release(cmd.Context(), args[0], p)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&p.session, "session", "", "`id` of the session that holds or waits")
	flags.StringVar(&p.handle, "handle", "", "`handle` of the hold, where the session has several")
	flags.Uint64Var(&p.token, "token", 0, "fencing `token` of the hold: only this one is released")
	_ = cmd.RegisterFlagCompletionFunc("session", a.completeSession)
	return cmd
}

func (a *app) release(ctx context.Context, path string, p pick) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	lock, err := a.client.ReadLock(ctx, path)
	if err != nil {
		return err
	}
	var found []lockapi.Holder
	for _, h := range lock.Holders {
		if p.matches(h) {
			found = append(found, h)
		}
	}
	switch {
	case len(found) == 1:
		h := found[0]
		return a.releaseOne(ctx, path, h.Session, h.Handle, h.Token, "from "+holderName(h), true)
	case len(found) > 1:
		f := &failure{code: exitFailed, message: fmt.Sprintf("%s is held by %d; say which with --token", clean(path), len(found))}
		for _, h := range found {
			f.tell("--token %d  %s, session %s, for %s", h.Token, clean(h.SessionName), clean(h.Session), since(h.GrantedAt))
		}
		return f
	case p.session != "" && p.token == 0:
		return a.leaveQueue(ctx, path, p)
	case len(lock.Holders) == 0:
		return a.nothing(path, "nobody holds it")
	case lock.MoreHolders > 0:
		return a.nothing(path, fmt.Sprintf("none of its first %d holders is the one named, and the cell does not show the other %d", len(lock.Holders), lock.MoreHolders))
	default:
		return a.nothing(path, "none of its holders is the one named")
	}
}

// leaveQueue takes back the session's queue position for path.
func (a *app) leaveQueue(ctx context.Context, path string, p pick) error {
	s, err := a.client.ReadSession(ctx, p.session)
	if err != nil {
		return err
	}
	for _, w := range s.Waits {
		if w.Path == path && (p.anyHandle || w.Handle == p.handle) {
			return a.releaseOne(ctx, path, s.ID, w.Handle, 0, "as waited for by "+clean(s.Name), false)
		}
	}
	return a.nothing(path, "the session neither holds it nor waits for it")
}

// releaseOne releases what was picked, and warns where it was held.
func (a *app) releaseOne(ctx context.Context, path, session, handle string, token uint64, whose string, held bool) error {
	released, err := a.client.Release(ctx, path, session, handle, token)
	if err != nil {
		return err
	}
	if !released {
		return a.nothing(path, "it was released at the same moment")
	}
	if a.ui.json {
		err = a.ui.object(lockapi.Released{Released: true})
	} else {
		a.ui.printf("released %s %s\n", clean(path), whose)
	}
	if held {
		a.ui.note("whoever held it may still be at work; only a resource that checks tokens refuses it")
	}
	return err
}

// nothing is a release that had nothing to do.
func (a *app) nothing(path, why string) error {
	f := &failure{code: exitFailed, message: fmt.Sprintf("nothing to release at %s: %s", clean(path), why)}
	if a.ui.json {
		if err := a.ui.object(lockapi.Released{}); err != nil {
			return err
		}
	}
	return f.hint("stout locks %s shows who holds it", clean(path))
}

// holderName is a holder for a message: name, session and token.
func holderName(h lockapi.Holder) string {
	return fmt.Sprintf("%s (session %s, token %d)", clean(h.SessionName), clean(h.Session), h.Token)
}
