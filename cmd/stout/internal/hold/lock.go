// Package hold has the commands that hold a lock while a command runs: lock and
// elect. Holding itself, with its retries and losses, is in packages client and
// client/recipe.
package hold

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/lockapi"
)

// Commands returns the commands of this package.
func Commands(a *app.App) []app.Command {
	return []app.Command{(&lockCommand{holder: holder{a}}).command(), (&electCommand{lockCommand: lockCommand{holder: holder{a}}}).command()}
}

type lockFlags struct {
	path       string // for people: all of paths
	paths      []string
	command    []string
	shared     bool
	limit      int
	priority   int
	wait       time.Duration
	waits      bool // --wait was given, and is not 0
	try        bool // --try, or --wait 0
	ttl, delay time.Duration
	name       string
	margins    child.Margins

	conflictCode, unavailableCode, lostCode int

	// prepare runs when the lock is held, before the command, and retract before
	// the release. Each may be nil.
	prepare, retract func(context.Context, *heldLock) error
}

// lockTimeout is the default of --timeout for a lock that waits, long enough
// for a restart of the cell. With --try the common default applies.
const lockTimeout = time.Minute

// bound returns how long the whole acquisition may take; 0 means no limit. An
// attempt with --try is limited by timeout.
func (f *lockFlags) bound(timeout time.Duration) time.Duration {
	if f.try {
		return timeout
	}
	return f.wait
}

// over returns a channel for the end of an acquisition that begins now, or nil
// without a limit.
func (f *lockFlags) over(timeout time.Duration) <-chan time.Time {
	if bound := f.bound(timeout); bound > 0 {
		return time.After(bound)
	}
	return nil
}

const lockHelp = `Takes the lock at PATH, runs CMD while holding it, and releases it when CMD
ends. Without CMD it prints the lock's token and sequencer and holds the lock
until Ctrl-C.

stout waits in the lock's queue: before the waiters of a lower --priority, and
behind those that came earlier with the same one. --wait limits the whole wait,
including opening a session; the default is to wait for ever. --try (or --wait
0) does not wait. In any case stout gives up when no replica has answered for
--timeout: 1m, or 5s with --try. While waiting, it reports the holder and its
own queue position on standard error. --quiet hides that, and also the error
that another session holds the lock.

With several PATHs, at most 16, stout gets all the locks at once or none, and
waits for all in one queue position. So callers that name the same locks in
different orders never wait for each other. The loss of one lock is the loss of
all.

CMD's environment has STOUT_PATH, STOUT_TOKEN and STOUT_SEQUENCER (a line for
each PATH), and STOUT_SERVER for other stout commands; a token for access is not
passed on. A resource that CMD writes to should refuse tokens lower than the
highest one it has seen.

CMD runs in its own process group and gets the terminal. stout forwards SIGINT,
SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 to the group. When CMD ends, stout
kills the rest of the group before it releases the lock. Start a daemon that
should survive with setsid. stout cannot end a CMD that runs as another user:
write sudo before stout, not before CMD.

If the cell cannot be reached and the lease runs down, CMD gets a SIGTERM when
--term-before is left of the lease, and a SIGKILL when --kill-before is left.
Both come before another session can get the lock. If the cell then comes back,
CMD may still end in its own time, but the exit code reports a lost lock.

An operator's stout release or stout session kill does not wait for CMD. When
the cell reports it, usually at once, CMD gets a SIGTERM, and a SIGKILL
--kill-before later. Until then CMD may run beside the next holder. Only a
resource that checks tokens prevents damage from that.

If stout itself is killed, Linux kills CMD too, but not CMD's own children. If
stout is stopped (Ctrl-Z), so is CMD, and the lock is lost when the ttl is over.

Exit codes: CMD's own, 128+n if signal n ended it, 126 or 127 if it cannot be
run, and
  75  another session holds the lock, or it is in its lock-delay
  69  the cell could not grant it: no replica answers, there is no master, a
      quota is used up, or the session ended while waiting
  76  the lock was lost before CMD ended
  77  the cell refused the request, for example because of another limit
  2   wrong usage`

type lockCommand struct {
	holder
	lockFlags
}

func (c *lockCommand) command() app.Command {
	return app.Command{
		Run: c.run,
		Use: "lock PATH [PATH]... [flags] [-- CMD [ARG]...]", Short: "Hold a lock while a command runs", SuggestFor: "acquire hold run exec with",
		Long: lockHelp, Complete: app.ThenFiles(c.CompletePath()), CompleteAll: true, Unlimited: true,
		Example: `  stout lock /jobs/nightly -- ./nightly.sh
  stout lock /jobs/nightly --try -q -- ./nightly.sh || [ $? = 75 ]
  stout lock /jobs/nightly --wait 10m -- ./nightly.sh
  stout lock /pool/workers --limit 4 -- ./worker
  stout lock /db/migrate --priority 10 -- ./urgent.sh
  stout lock /db/a /db/b -- ./copy a b
  stout lock /db/migrate`,
		Flags: func(f *pflag.FlagSet) {
			f.BoolVar(&c.shared, "shared", false, "share the lock with other shared holders")
			f.IntVar(&c.limit, "limit", 0, "share the lock among at most `n` holders (semaphore)")
			c.bindCommon(f)
		},
	}
}

// bindCommon binds the flags of all commands that run a command under a lock.
func (c *lockCommand) bindCommon(f *pflag.FlagSet) {
	f.IntVar(&c.priority, "priority", 0, fmt.Sprintf("wait before the waiters of a lower priority than `n`, at most %d", lockapi.MaxPriority))
	f.DurationVar(&c.wait, "wait", 0, "give up after this `duration`, including opening a session (default: wait for ever)")
	f.BoolVar(&c.try, "try", false, "do not wait for the lock")
	app.AddTTL(f, &c.ttl, "`duration` after which a vanished holder loses the lock")
	f.DurationVar(&c.delay, "lock-delay", 0, "`duration` after the ttl for which a vanished holder's lock stays blocked")
	app.AddName(f, &c.name)
	f.DurationVar(&c.margins.Term, "term-before", 0, "send SIGTERM when this `duration` is left of the lease (default ttl/6)")
	f.DurationVar(&c.margins.Kill, "kill-before", 0, "send SIGKILL when this `duration` is left of the lease (default ttl/12)")
	f.IntVar(&c.conflictCode, "conflict-exit-code", exit.Conflict, "exit `code` if another session holds the lock")
	f.IntVar(&c.unavailableCode, "unavailable-exit-code", exit.Unavailable, "exit `code` if the cell could not grant the lock")
	f.IntVar(&c.lostCode, "lost-exit-code", exit.Lost, "exit `code` if the lock was lost")
}

func (c *lockCommand) run(ctx context.Context, args []string) error {
	args, command := c.CutArgs(args)
	switch {
	case command != nil && len(command) == 0:
		return exit.Usagef("there is no command after --").Hint("omit -- to hold the lock until Ctrl-C")
	case len(args) == 0:
		return exit.Usagef("PATH is missing: the lock to take")
	case len(args) > 1 && command == nil && lockapi.ValidatePath(args[1]) != nil:
		return exit.Usagef("unexpected argument %q", args[1]).
			Hint("write the command after --: stout lock %s -- %s", args[0], commandLine(args[1:]))
	}
	f := &c.lockFlags
	f.path, f.paths, f.command = strings.Join(args, ", "), args, command
	for i, path := range f.paths {
		if err := app.ValidPath(path); err != nil {
			return err
		}
		if slices.Contains(f.paths[:i], path) {
			return exit.Usagef("%s is given twice", path)
		}
	}
	if f.try && f.wait > 0 {
		return exit.Usagef("--try and --wait %v exclude each other", f.wait)
	}
	f.try = f.try || c.Given("wait") && f.wait == 0
	f.waits = c.Given("wait") && !f.try
	defaults := child.DefaultMargins(f.ttl)
	if !c.Given("term-before") {
		f.margins.Term = max(defaults.Term, f.margins.Kill)
	}
	if !c.Given("kill-before") {
		f.margins.Kill = min(defaults.Kill, f.margins.Term)
	}
	if err := f.validate(c.Given("limit")); err != nil {
		return err
	}
	if !f.try && !c.Given("timeout") {
		c.Options.Timeout = lockTimeout
	}
	// From the start, so that none is lost between waiting for the lock, running the
	// command, and releasing the lock.
	signals, stop := child.Signals()
	defer stop()
	return c.lock(ctx, *f, signals)
}

// commandLine returns the words of a command line. One word with blanks is a
// command for the shell.
func commandLine(args []string) string {
	if len(args) == 1 && strings.ContainsAny(args[0], " ;|&<>") {
		return "sh -c '" + strings.ReplaceAll(args[0], "'", `'\''`) + "'"
	}
	return strings.Join(args, " ")
}

func (f *lockFlags) validate(limited bool) error {
	if f.wait < 0 {
		return exit.Usagef("--wait is %v; it must not be negative", f.wait)
	}
	if err := app.CheckSession(f.ttl, &f.name); err != nil {
		return err
	}
	if err := app.Within("--lock-delay", f.delay, 0, lockapi.MaxLockDelayMS); err != nil {
		return err
	}
	if limited && (f.limit < 1 || f.limit > lockapi.MaxLimit) {
		return exit.Usagef("--limit is %d; it must be between 1 and %d", f.limit, lockapi.MaxLimit)
	}
	if f.priority < 0 || f.priority > lockapi.MaxPriority {
		return exit.Usagef("--priority is %d; it must be between 0 and %d", f.priority, lockapi.MaxPriority)
	}
	if err := f.margins.Validate(f.ttl); err != nil {
		return exit.Usagef("--term-before and --kill-before: %v", err)
	}
	for _, code := range []struct {
		flag  string
		value int
	}{{"--conflict-exit-code", f.conflictCode}, {"--unavailable-exit-code", f.unavailableCode}, {"--lost-exit-code", f.lostCode}} {
		if code.value < 1 || code.value > 255 {
			return exit.Usagef("%s is %d; it must be between 1 and 255", code.flag, code.value)
		}
	}
	return nil
}

func (f *lockFlags) options() []client.LockOption {
	var opts []client.LockOption
	switch {
	case f.limit > 0:
		opts = append(opts, client.Limit(f.limit))
	case f.shared:
		opts = append(opts, client.Shared())
	}
	if f.priority > 0 {
		opts = append(opts, client.Priority(f.priority))
	}
	if f.delay > 0 {
		opts = append(opts, client.LockDelay(f.delay))
	}
	if len(f.paths) > 1 {
		opts = append(opts, client.With(f.paths[1:]...))
	}
	return opts
}

// environment returns the environment of the command. It names the servers so
// that stout check in the command asks the same cell.
func (a *holder) environment(h *heldLock) []string {
	var paths, tokens, sequencers []string
	for _, part := range h.parts() {
		paths, tokens, sequencers = append(paths, part.Path), append(tokens, fmt.Sprint(part.Token)), append(sequencers, part.Sequencer)
	}
	return append(a.CellEnv(),
		"STOUT_PATH="+strings.Join(paths, "\n"),
		"STOUT_TOKEN="+strings.Join(tokens, "\n"),
		"STOUT_SEQUENCER="+strings.Join(sequencers, "\n"),
	)
}
