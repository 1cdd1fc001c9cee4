package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/lockapi"
)

// pick selects the hold that an operator means; empty fields match everything.
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

type releaseLock struct {
	*app
	pick
}

func (c *releaseLock) command() command {
	return command{
		use: "release PATH", short: "Take a lock away from its holder", like: "unlock free unhold", words: c.completePath(),
		long: `Releases the lock at PATH by force. If several sessions share it, choose one
with --token or --session. With --session it also removes that session from the
queue.

The holder may continue beside the next holder until it learns of this. stout
lock and programs with the Go client learn of it from the cell at once, if they
can reach it. Only fencing tokens keep the two apart. stout session kill ends
the whole session.`,
		exits: changeExits("released", "there was nothing to release, or it is not clear which hold"),
		example: `  stout release /jobs/nightly
  stout release /pool/workers --token 4711`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.pick.session, "session", "", "`id` of the session that holds or waits")
			f.StringVar(&c.handle, "handle", "", "`handle` of the hold, if the session has several")
			f.Uint64Var(&c.pick.token, "token", 0, "fencing `token` of the hold to release")
		},
		values: map[string]completer{"session": c.completeSession()},
	}
}

func (c *releaseLock) run(ctx context.Context, args []string) error {
	path, p := args[0], c.pick
	if err := validPath(path); err != nil {
		return err
	}
	p.anyHandle = !c.given("handle")
	lock, err := c.client.ReadLock(ctx, path)
	if err != nil {
		return err
	}
	found := slices.DeleteFunc(slices.Clone(lock.Holders), func(h lockapi.Holder) bool { return !p.matches(h) })
	switch {
	case len(found) == 1:
		h := found[0]
		return c.releaseOne(ctx, path, h.Session, h.Handle, h.Token, "from "+holderName(h), true)
	case len(found) > 1:
		f := &failure{code: exitFailed, message: fmt.Sprintf("%s has %d holders; choose one with --token", clean(path), len(found))}
		for _, h := range found {
			f.detail("--token %d  %s, session %s, for %s", h.Token, clean(h.SessionName), clean(h.Session), since(h.GrantedAt))
		}
		return f
	case p.session != "" && p.token == 0:
		return c.leaveQueue(ctx, path, p)
	case len(lock.Holders) == 0:
		return c.nothing(path, "it is not held")
	case lock.MoreHolders > 0:
		return c.nothing(path, fmt.Sprintf("none of its first %d holders matches, and the cell does not list the other %d", len(lock.Holders), lock.MoreHolders))
	}
	return c.nothing(path, "none of its holders matches")
}

// leaveQueue removes the session from the queue for path.
func (c *releaseLock) leaveQueue(ctx context.Context, path string, p pick) error {
	s, err := c.client.ReadSession(ctx, p.session)
	if err != nil {
		return err
	}
	for _, w := range s.Waits {
		if w.Path == path && (p.anyHandle || w.Handle == p.handle) {
			return c.releaseOne(ctx, path, s.ID, w.Handle, 0, "from the queue position of "+clean(s.Name), false)
		}
	}
	return c.nothing(path, "the session neither holds it nor waits for it")
}

// releaseOne releases the selected hold or queue position, and warns if it was
// held.
func (c *releaseLock) releaseOne(ctx context.Context, path, session, handle string, token uint64, whose string, held bool) error {
	released, err := c.client.Release(ctx, path, session, handle, token)
	if err != nil {
		return err
	}
	if !released {
		return c.nothing(path, "it was released at the same moment")
	}
	if c.ui.json {
		err = c.ui.object(lockapi.Released{Released: true})
	} else {
		c.ui.printf("released %s %s\n", clean(path), whose)
	}
	if held {
		c.ui.note("the former holder may still be running; only a resource that checks tokens refuses its writes")
	}
	return err
}

// nothing returns the error of a release without effect.
func (c *releaseLock) nothing(path, why string) error {
	f := &failure{code: exitFailed, message: fmt.Sprintf("nothing to release at %s: %s", clean(path), why)}
	if c.ui.json {
		if err := c.ui.object(lockapi.Released{}); err != nil {
			return err
		}
	}
	return f.hint("stout locks %s shows its holders", clean(path))
}

// holderName describes a holder by name, session and token.
func holderName(h lockapi.Holder) string {
	return fmt.Sprintf("%s (session %s, token %d)", clean(h.SessionName), clean(h.Session), h.Token)
}
