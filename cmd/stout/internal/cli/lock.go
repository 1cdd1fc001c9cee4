package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/lockapi"
)

// lockFlags are what stout lock was asked to do.
type lockFlags struct {
	path       string
	command    []string
	shared     bool
	limit      int
	wait       time.Duration
	waits      bool // --wait was given, and is not 0
	try        bool // --try, or --wait 0
	ttl, delay time.Duration
	name       string
	margins    child.Margins

	conflictCode, unavailableCode, lostCode int
}

// lockTimeout is --timeout for stout lock that waits: a cell that is restarted
// is back before. One that only tries has the common default.
const lockTimeout = time.Minute

// bound is how long the whole acquisition may take; 0 means no limit. To try
// takes as long as an answer may take.
func (f *lockFlags) bound(timeout time.Duration) time.Duration {
	if f.try {
		return timeout
	}
	return f.wait
}

// over says when the time of an acquisition that begins now is over, if it is.
func (f *lockFlags) over(timeout time.Duration) <-chan time.Time {
	if bound := f.bound(timeout); bound > 0 {
		return time.After(bound)
	}
	return nil
}

const lockHelp = `Takes the lock at PATH, runs CMD while holding it, and releases it when CMD
ends. Without CMD it holds the lock until Ctrl-C, and prints its token and
sequencer.

It waits its turn in the queue, for as long as --wait says: session and lock
together; for ever unless given. --try (or --wait 0) does not wait. In any case
it gives up when no replica of the cell has answered for --timeout: 1m, or 5s
with --try. While it waits it says for whom, and its place in the queue, on
standard error; --quiet says nothing of that, nor of a lock that somebody else
has.

CMD finds STOUT_PATH, STOUT_TOKEN and STOUT_SEQUENCER in its environment, and
STOUT_SERVER for a stout of its own; whatever it writes to should refuse a
lower token than it has seen.

CMD runs in a process group of its own and gets the terminal. SIGINT, SIGTERM,
SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 sent to stout are passed on to the group.
What CMD leaves behind in the group is killed before the lock is released; a
daemon that is to outlive it starts with setsid.

When the cell cannot be reached and the lease runs down, CMD gets a SIGTERM
when --term-before is left of it, and a SIGKILL when --kill-before is left,
before anybody else can get the lock. A CMD that was told stays told if the
cell comes back: it is then left to end in peace, and the exit code is that of
a lost lock.

An operator's stout release or stout session kill does not wait for CMD. stout
asks the cell every few seconds whether it still holds the lock (a quarter of
the ttl, 5s at most). Once it is told no, CMD gets a SIGTERM at once and a
SIGKILL --kill-before later, or at once if the session is over. Until then CMD
may work beside the next holder: only a resource that checks tokens keeps them
apart.

If stout itself is killed, Linux kills CMD too, though not CMD's own children.
If it is stopped (Ctrl-Z), so is CMD, and the lock is lost when the ttl is
over.

Exit codes: CMD's own, 128+n if signal n ended it, 126 or 127 if it cannot be
run, and
  75  somebody else has the lock, or it is in its lock-delay
  69  the cell could not give it: no replica answers, it has no master, a quota
      is used up, or the session ended while waiting
  76  it was lost before CMD ended, whatever CMD's own code
  1   the cell refused: another limit, say
  2   wrong usage`

type lockCommand struct {
	*app
	lockFlags
}

func (c *lockCommand) command() command {
	return command{
		use: "lock PATH [flags] [-- CMD [ARG]...]", short: "Hold a lock while a command runs", like: "acquire hold run exec with",
		long: lockHelp, words: thenFiles(c.completePath()), all: true, endless: true,
		example: `  stout lock /jobs/nightly -- ./nightly.sh
  stout lock /jobs/nightly --try -q -- ./nightly.sh || [ $? = 75 ]
  stout lock /jobs/nightly --wait 10m -- ./nightly.sh
  stout lock /pool/workers --limit 4 -- ./worker
  stout lock /db/migrate`,
		flags: func(f *pflag.FlagSet) {
			f.BoolVar(&c.shared, "shared", false, "share the lock with others that do")
			f.IntVar(&c.limit, "limit", 0, "share it among at most `n` holders: a semaphore")
			f.DurationVar(&c.wait, "wait", 0, "give up after this `duration`, session included (default: wait for ever)")
			f.BoolVar(&c.try, "try", false, "do not wait: take the lock now or not at all")
			addTTL(f, &c.ttl, "`duration` for which the lock outlives a holder that has gone")
			f.DurationVar(&c.delay, "lock-delay", 0, "`duration` after the ttl in which nobody gets the lock of a holder that has gone")
			addName(f, &c.name)
			f.DurationVar(&c.margins.Term, "term-before", 0, "SIGTERM when this `duration` is left of a lease not renewed (default ttl/6)")
			f.DurationVar(&c.margins.Kill, "kill-before", 0, "SIGKILL when this `duration` is left of it (default ttl/12)")
			f.IntVar(&c.conflictCode, "conflict-exit-code", exitConflict, "exit `code` when somebody else has the lock")
			f.IntVar(&c.unavailableCode, "unavailable-exit-code", exitUnavailable, "exit `code` when the cell could not give it")
			f.IntVar(&c.lostCode, "lost-exit-code", exitLost, "exit `code` when the lock was lost")
		},
	}
}

// addTTL and addName add the flags of commands that open a session.
func addTTL(flags *pflag.FlagSet, ttl *time.Duration, usage string) {
	flags.DurationVar(ttl, "ttl", lockapi.DefaultTTLMS*time.Millisecond, usage)
}

func addName(flags *pflag.FlagSet, name *string) {
	flags.StringVar(name, "name", "", "`name` of the session, for operators (default user@host)")
}

func (c *lockCommand) run(ctx context.Context, args []string) error {
	args, command := c.behindDash(args)
	switch {
	case command != nil && len(command) == 0:
		return usagef("there is no command after --").hint("leave -- out to hold the lock until Ctrl-C")
	case len(args) == 0:
		return usagef("which lock? PATH is missing")
	case len(args) > 1:
		return usagef("unexpected argument %q", args[1]).
			hint("a command goes behind --: stout lock %s -- %s", args[0], strings.Join(args[1:], " "))
	}
	f := &c.lockFlags
	f.path, f.command = args[0], command
	if err := validPath(f.path); err != nil {
		return err
	}
	if f.try && f.wait > 0 {
		return usagef("--try does not wait, and --wait is %v", f.wait)
	}
	f.try = f.try || c.given("wait") && f.wait == 0
	f.waits = c.given("wait") && !f.try
	defaults := child.DefaultMargins(f.ttl)
	if !c.given("term-before") {
		f.margins.Term = max(defaults.Term, f.margins.Kill)
	}
	if !c.given("kill-before") {
		f.margins.Kill = min(defaults.Kill, f.margins.Term)
	}
	if err := f.validate(c.given("limit")); err != nil {
		return err
	}
	if !f.try && !c.given("timeout") {
		c.opts.timeout = lockTimeout
	}
	return c.lock(ctx, *f)
}

func (f *lockFlags) validate(limited bool) error {
	if f.wait < 0 {
		return usagef("--wait is %v; it must not be negative", f.wait)
	}
	if err := checkSession(f.ttl, &f.name); err != nil {
		return err
	}
	if err := within("--lock-delay", f.delay, 0, lockapi.MaxLockDelayMS); err != nil {
		return err
	}
	if limited && (f.limit < 1 || f.limit > lockapi.MaxLimit) {
		return usagef("--limit is %d; it must be within 1 and %d", f.limit, lockapi.MaxLimit)
	}
	if err := f.margins.Validate(f.ttl); err != nil {
		return usagef("--term-before and --kill-before: %v", err)
	}
	for _, code := range []struct {
		flag  string
		value int
	}{{"--conflict-exit-code", f.conflictCode}, {"--unavailable-exit-code", f.unavailableCode}, {"--lost-exit-code", f.lostCode}} {
		if code.value < 1 || code.value > 255 {
			return usagef("%s is %d; it must be within 1 and 255", code.flag, code.value)
		}
	}
	return nil
}

// checkSession checks the flags of a session, and gives it a name if it has none.
func checkSession(ttl time.Duration, name *string) error {
	*name = cmp.Or(*name, defaultName())
	if len(*name) > lockapi.MaxNameBytes {
		return usagef("--name has %d bytes; at most %d are allowed", len(*name), lockapi.MaxNameBytes)
	}
	return within("--ttl", ttl, lockapi.MinTTLMS, lockapi.MaxTTLMS)
}

// within refuses a duration outside of the contract's bounds, which are in
// milliseconds.
func within(flag string, d time.Duration, lo, hi int64) error {
	least, most := time.Duration(lo)*time.Millisecond, time.Duration(hi)*time.Millisecond
	if d < least || d > most {
		return usagef("%s is %v; it must be within %v and %v", flag, d, least, most)
	}
	return nil
}

// options are the flags as the client wants them.
func (f *lockFlags) options() []client.LockOption {
	var opts []client.LockOption
	switch {
	case f.limit > 0:
		opts = append(opts, client.Limit(f.limit))
	case f.shared:
		opts = append(opts, client.Shared())
	}
	if f.delay > 0 {
		opts = append(opts, client.LockDelay(f.delay))
	}
	return opts
}

// environment is our own with what the command may want to know. The servers
// are in it for a stout check in the command to ask the same cell.
func (a *app) environment(held *client.Held) []string {
	return append(a.cellEnvironment(),
		"STOUT_PATH="+held.Path(),
		fmt.Sprintf("STOUT_TOKEN=%d", held.Token()),
		"STOUT_SEQUENCER="+held.Sequencer(),
	)
}

// defaultName tells operators whose session it is.
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
