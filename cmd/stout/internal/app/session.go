package app

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/user"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lockapi"
)

// AddTTL and AddName add the flags of commands that open a session.
func AddTTL(flags *pflag.FlagSet, ttl *time.Duration, usage string) {
	flags.DurationVar(ttl, "ttl", lockapi.DefaultTTLMS*time.Millisecond, usage)
}

func AddName(flags *pflag.FlagSet, name *string) {
	flags.StringVar(name, "name", "", "`name` of the session, for operators (default user@host)")
}

// CheckSession checks the flags of a session and sets its default name.
func CheckSession(ttl time.Duration, name *string) error {
	*name = cmp.Or(*name, defaultName())
	if len(*name) > lockapi.MaxNameBytes {
		return exit.Usagef("--name has %d bytes; at most %d are allowed", len(*name), lockapi.MaxNameBytes)
	}
	return Within("--ttl", ttl, lockapi.MinTTLMS, lockapi.MaxTTLMS)
}

// Within rejects a duration outside the contract's bounds, given in
// milliseconds.
func Within(flag string, d time.Duration, lo, hi int64) error {
	least, most := time.Duration(lo)*time.Millisecond, time.Duration(hi)*time.Millisecond
	if d < least || d > most {
		return exit.Usagef("%s is %v; it must be between %v and %v", flag, d, least, most)
	}
	return nil
}

// defaultName returns user@host, which shows operators the owner of a session.
func defaultName() string {
	name, host := "?", "?"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	full := name + "@" + host
	return full[:min(len(full), lockapi.MaxNameBytes)]
}

// EndSession ends a session. If the cell cannot be reached, it notes what stays
// undone.
func (a *App) EndSession(ctx context.Context, session *client.Session, undone string) {
	err := wait.Do(ctx, func() error { return session.Close(context.Background()) })
	if err != nil && !errors.Is(err, client.ErrSessionExpired) && !errors.Is(err, client.ErrSessionNotFound) {
		a.NoteUnreached(session, undone)
	}
}

// NoteUnreached reports what stays undone until the session expires. No session
// expires without a master, and a new master gives each one its whole ttl.
func (a *App) NoteUnreached(session *client.Session, undone string) {
	a.UI.Note("the cell could not be reached to %s in at most %s, or that long after the cell has a master again", undone, format.Human(session.TTL()))
}

// ClosePatience returns how long the end of a session may take.
func ClosePatience(session *client.Session) time.Duration {
	if session.Remaining() < session.TTL()/5 { // long after the last successful keepalive
		return closeLostTimeout
	}
	return closeTimeout
}

// Time limits for releasing the lock after the command ended. The shorter one
// applies if the cell could not be reached before. After that, the lock becomes
// free when the ttl is over.
const (
	closeTimeout     = 5 * time.Second
	closeLostTimeout = time.Second
)
