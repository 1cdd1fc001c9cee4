package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/lockapi"
)

// lockFlags are the arguments of stout lock.
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
should survive with setsid.

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
	*app
	lockFlags
}

func (a *app) lockCommand() command {
	c := &lockCommand{app: a}
	return command{
		run: c.run,
		use: "lock PATH [PATH]... [flags] [-- CMD [ARG]...]", short: "Hold a lock while a command runs", like: "acquire hold run exec with",
		long: lockHelp, words: thenFiles(c.completePath()), all: true, endless: true,
		example: `  stout lock /jobs/nightly -- ./nightly.sh
  stout lock /jobs/nightly --try -q -- ./nightly.sh || [ $? = 75 ]
  stout lock /jobs/nightly --wait 10m -- ./nightly.sh
  stout lock /pool/workers --limit 4 -- ./worker
  stout lock /db/migrate --priority 10 -- ./urgent.sh
  stout lock /db/a /db/b -- ./copy a b
  stout lock /db/migrate`,
		flags: func(f *pflag.FlagSet) {
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
	addTTL(f, &c.ttl, "`duration` after which a vanished holder loses the lock")
	f.DurationVar(&c.delay, "lock-delay", 0, "`duration` after the ttl for which a vanished holder's lock stays blocked")
	addName(f, &c.name)
	f.DurationVar(&c.margins.Term, "term-before", 0, "send SIGTERM when this `duration` is left of the lease (default ttl/6)")
	f.DurationVar(&c.margins.Kill, "kill-before", 0, "send SIGKILL when this `duration` is left of the lease (default ttl/12)")
	f.IntVar(&c.conflictCode, "conflict-exit-code", exitConflict, "exit `code` if another session holds the lock")
	f.IntVar(&c.unavailableCode, "unavailable-exit-code", exitUnavailable, "exit `code` if the cell could not grant the lock")
	f.IntVar(&c.lostCode, "lost-exit-code", exitLost, "exit `code` if the lock was lost")
}

// addTTL and addName add the flags of commands that open a session.
func addTTL(flags *pflag.FlagSet, ttl *time.Duration, usage string) {
	flags.DurationVar(ttl, "ttl", lockapi.DefaultTTLMS*time.Millisecond, usage)
}

func addName(flags *pflag.FlagSet, name *string) {
	flags.StringVar(name, "name", "", "`name` of the session, for operators (default user@host)")
}

// run takes the lock in args and runs the command there under it.
func (c *lockCommand) run(ctx context.Context, args []string) error {
	args, command := c.behindDash(args)
	switch {
	case command != nil && len(command) == 0:
		return usagef("there is no command after --").hint("omit -- to hold the lock until Ctrl-C")
	case len(args) == 0:
		return usagef("PATH is missing: the lock to take")
	case len(args) > 1 && command == nil && lockapi.ValidatePath(args[1]) != nil:
		return usagef("unexpected argument %q", args[1]).
			hint("write the command after --: stout lock %s -- %s", args[0], commandLine(args[1:]))
	}
	f := &c.lockFlags
	f.path, f.paths, f.command = strings.Join(args, ", "), args, command
	for i, path := range f.paths {
		if err := validPath(path); err != nil {
			return err
		}
		if slices.Contains(f.paths[:i], path) {
			return usagef("%s is given twice", path)
		}
	}
	if f.try && f.wait > 0 {
		return usagef("--try and --wait %v exclude each other", f.wait)
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
		return usagef("--wait is %v; it must not be negative", f.wait)
	}
	if err := checkSession(f.ttl, &f.name); err != nil {
		return err
	}
	if err := within("--lock-delay", f.delay, 0, lockapi.MaxLockDelayMS); err != nil {
		return err
	}
	if limited && (f.limit < 1 || f.limit > lockapi.MaxLimit) {
		return usagef("--limit is %d; it must be between 1 and %d", f.limit, lockapi.MaxLimit)
	}
	if f.priority < 0 || f.priority > lockapi.MaxPriority {
		return usagef("--priority is %d; it must be between 0 and %d", f.priority, lockapi.MaxPriority)
	}
	if err := f.margins.Validate(f.ttl); err != nil {
		return usagef("--term-before and --kill-before: %v", err)
	}
	for _, code := range []struct {
		flag  string
		value int
	}{{"--conflict-exit-code", f.conflictCode}, {"--unavailable-exit-code", f.unavailableCode}, {"--lost-exit-code", f.lostCode}} {
		if code.value < 1 || code.value > 255 {
			return usagef("%s is %d; it must be between 1 and 255", code.flag, code.value)
		}
	}
	return nil
}

// checkSession checks the flags of a session and sets its default name.
func checkSession(ttl time.Duration, name *string) error {
	*name = cmp.Or(*name, defaultName())
	if len(*name) > lockapi.MaxNameBytes {
		return usagef("--name has %d bytes; at most %d are allowed", len(*name), lockapi.MaxNameBytes)
	}
	return within("--ttl", ttl, lockapi.MinTTLMS, lockapi.MaxTTLMS)
}

// within rejects a duration outside the contract's bounds, given in
// milliseconds.
func within(flag string, d time.Duration, lo, hi int64) error {
	least, most := time.Duration(lo)*time.Millisecond, time.Duration(hi)*time.Millisecond
	if d < least || d > most {
		return usagef("%s is %v; it must be between %v and %v", flag, d, least, most)
	}
	return nil
}

// options returns the flags as client options.
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
func (a *app) environment(h *heldLock) []string {
	var paths, tokens, sequencers []string
	for _, part := range h.parts() {
		paths, tokens, sequencers = append(paths, part.Path), append(tokens, fmt.Sprint(part.Token)), append(sequencers, part.Sequencer)
	}
	return append(a.cellEnvironment(),
		"STOUT_PATH="+strings.Join(paths, "\n"),
		"STOUT_TOKEN="+strings.Join(tokens, "\n"),
		"STOUT_SEQUENCER="+strings.Join(sequencers, "\n"),
	)
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
