// Package cli is the command line of stout: one file per subject, all output in
// ui.go, all exit codes in exit.go. A command is a value, see command.go.
package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/internal/nonblock"
	"github.com/stoutlock/stout/lockapi"
)

const (
	serverEnv      = "STOUT_SERVER"
	defaultTimeout = 5 * time.Second
)

// localCell has the addresses of a cell on this machine, as started by make run
// or stoutd --dev. Any of its replicas may be down.
var localCell = []string{"127.0.0.1:7101", "127.0.0.1:7102", "127.0.0.1:7103"}

// app is one run of stout.
type app struct {
	stdin, stdout, stderr *os.File // output goes through answers and notices
	answers               *answers
	notices               *nonblock.Writer
	opts                  options
	ui                    *ui
	client                *client.Client
	admin                 *admin.Admin
	via                   http.RoundTripper                     // for calls outside the client; nil for a new transport
	token                 func(context.Context) (string, error) // nil if no access token was named
	tokenFrom             string                                // its file; empty if it came from the environment
	certs                 *certs.Source                         // nil if no certificates were named
	started               bool                                  // the command line was understood
	flags                 *pflag.FlagSet                        // of the command that runs
}

// options holds the flags shared by all commands.
type options struct {
	servers []string
	files   certs.Files

	tokenFile string
	output    string
	timeout   time.Duration
	noColor   bool
	quiet     bool

	stale, yes, force bool // see addStale, addYes and addForce
}

// addStale, addYes and addForce add flags that several commands have. A command
// with --force has --yes as well.
func (a *app) addStale(f *pflag.FlagSet) {
	f.BoolVar(&a.opts.stale, "stale", false, "let any replica answer, even without a master; the answer may be out of date")
}

func (a *app) addYes(f *pflag.FlagSet) {
	f.BoolVarP(&a.opts.yes, "yes", "y", false, "skip the question")
}

func (a *app) addForce(f *pflag.FlagSet) {
	a.addYes(f)
	f.BoolVar(&a.opts.force, "force", false, "continue even if too few other members are healthy")
}

// readOptions returns the options of a read.
func (a *app) readOptions() []client.ReadOption {
	if a.opts.stale {
		return []client.ReadOption{client.Stale()}
	}
	return nil
}

// Run executes the command line args (without the program's name) and returns
// the exit code. It writes to the given files only.
func Run(ctx context.Context, args []string, stdin, stdout, stderr *os.File) int {
	// Writes to a closed pipe then fail instead of killing the process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	notices := newNotices(stderr)
	a := &app{
		stdin: stdin, stdout: stdout, stderr: stderr,
		notices: notices, answers: &answers{to: stdout, before: func() { settle(notices) }, end: cancel},
	}
	a.ui = newUI(a) // until the flags are known
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.answers)
	root.SetErr(a.notices)
	cmd, err := root.ExecuteContextC(ctx)
	if a.client != nil {
		_ = a.client.Close()
	}
	f := a.ending(cmd, err)
	a.ui.failure(f)
	a.notices.Flush(lastNotices)
	switch {
	case f.interrupted:
		child.DieOfInterrupt()
	case f.unread:
		child.DieOfPipe(stdout)
	}
	return f.code
}

// ending returns how a run ends after its command returned err. An answer that
// could not be written outranks every other error: the caller does not have it.
// A reader that has read enough, such as head, is no error: the run then ends
// by SIGPIPE, as other programs do.
func (a *app) ending(cmd *cobra.Command, err error) *failure {
	switch lost := a.answers.lost(); {
	case errors.Is(lost, syscall.EPIPE):
		return &failure{code: exitSignal + int(syscall.SIGPIPE), unread: true}
	case lost != nil:
		return &failure{code: exitUnwritten, message: fmt.Sprintf("the answer is incomplete: %v", lost)}
	case err != nil:
		return a.explain(a.usage(cmd, err))
	}
	return &failure{code: exitOK}
}

// usage marks errors from before the command began as usage errors. cobra
// returns such errors for unknown commands, unknown flags and wrong argument
// counts.
func (a *app) usage(cmd *cobra.Command, err error) error {
	f, ok := errors.AsType[*failure](err)
	if a.started && (!ok || f.code != exitUsage) {
		return err
	}
	if !ok {
		f = misunderstood(cmd, err)
	}
	return f.hint("%s --help shows the usage", cmd.CommandPath())
}

func misunderstood(cmd *cobra.Command, err error) *failure {
	message, _, _ := strings.Cut(err.Error(), "\n")
	var word, at string
	if _, err := fmt.Sscanf(message, "unknown command %q for %q", &word, &at); err != nil {
		return usagef("%s", message)
	}
	if !cmd.HasSubCommands() {
		return usagef("unexpected argument %q", word)
	}
	f := usagef("unknown command %q for %q", word, at)
	if like := suggestions(cmd, word); len(like) > 0 {
		f.hint("did you mean %s?", strings.Join(like, " or "))
	}
	return f
}

// suggestions returns the commands that the user may have meant: commands that
// list the word (SuggestFor), or else commands with a similar name.
func suggestions(cmd *cobra.Command, word string) []string {
	var meant []string
	for _, c := range cmd.Commands() {
		if slices.Contains(c.SuggestFor, word) {
			meant = append(meant, c.CommandPath())
		}
	}
	if len(meant) > 0 {
		return meant
	}
	cmd.SuggestionsMinimumDistance = 2
	for _, name := range cmd.SuggestionsFor(word) {
		meant = append(meant, cmd.CommandPath()+" "+name)
	}
	return meant
}

func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stout",
		Short: "Manage a Stout cell and run commands under its locks",
		Long: `stout shows the state of a Stout cell, runs commands under a lock, and reads,
writes and watches small files.

Use --server or STOUT_SERVER to name the replicas, separated by commas. One is
enough; with all of them named, stout finds the cell while any of them is up. A
DNS name can stand for all replicas: dns:NAME:PORT looks up addresses, and
dns:NAME the SRV records of _stout._tcp.NAME.

With --ca-cert or --cert, stout connects by https. If a DNS name is used, the
replicas' certificates must contain that name.`,
		Example: `  stout status
  stout lock /jobs/nightly -- ./nightly.sh
  stout locks /jobs/
  stout explain /jobs/nightly
  stout put /app/conf --file app.conf
  stout watch /app/
  stout -o json sessions | jq -r '.sessions[].name'`,
		Version:           buildinfo.Get().String(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: a.prepare,
	}
	cmd.SetVersionTemplate("stout {{.Version}}\n")
	cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", pageWidth)))
	flags := cmd.PersistentFlags()
	flags.StringSliceVarP(&a.opts.servers, "server", "s", nil,
		"base `URLs` of replicas, or dns:NAME:PORT, separated by commas (default $"+serverEnv+", else localhost's ports 7101 to 7103)")
	flags.StringVar(&a.opts.files.CA, "ca-cert", "", "`file` with the CAs of the replicas' certificates (default $"+caCertEnv+", else the system's CAs)")
	flags.StringVar(&a.opts.files.Cert, "cert", "", "`file` of the client certificate to present (default $"+certEnv+")")
	flags.StringVar(&a.opts.files.Key, "key", "", "`file` of its private key (default $"+keyEnv+")")
	flags.StringVar(&a.opts.tokenFile, "token-file", "", "`file` of the access token to send (default $"+tokenFileEnv+", else the token $"+tokenEnv+")")
	flags.StringVarP(&a.opts.output, "output", "o", "table", "output `format`: table, or json as in the HTTP API")
	flags.DurationVar(&a.opts.timeout, "timeout", defaultTimeout, "give up if the cell does not answer within this `duration` (lock: 1m)")
	flags.BoolVarP(&a.opts.quiet, "quiet", "q", false, "print results and errors only, and no error that the exit code implies (for cron)")
	flags.BoolVar(&a.opts.noColor, "no-color", false, "print without colour (like NO_COLOR=1)")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("server", cobra.NoFileCompletions)
	for _, r := range a.commands() {
		cmd.AddCommand(a.build(r, nil))
	}
	return cmd
}

func (a *app) commands() []command {
	return []command{
		a.showStatus(), a.showTop(), a.listLocks(), a.explainLock(), a.deadlocks(), a.lockCommand(), a.elect(), a.releaseLock(),
		a.sessions(), a.session(), a.checkSequencer(),
		a.getFile(), a.putFile(), a.listFiles(), a.removeFile(), a.runTxn(), a.watchEvents(),
		a.transfer(), a.runDoctor(), a.backup(), a.access(), a.version(),
		{
			use: "rehearse", short: "Rehearse a change of master", like: "drill gameday exercise chaos", say: "name what to rehearse",
			sub: []command{a.rehearseFailover()},
		}, {
			use: "member", short: "List the members of the cell, and change them", like: "members replace",
			sub: []command{a.listMembers(), a.addMember(), a.removeMember(), a.setMember(), a.replaceMember()},
		}, {
			use: "token", short: "Make, list and revoke access tokens", like: "tokens secret credential login", about: aboutAccess,
			sub: []command{a.createToken(), a.listTokens(), a.revokeTokens()},
		}, {
			use: "certs", short: "Make certificates for a cell and its clients", like: "cert tls ca",
			sub: []command{a.makeCerts(), a.renewCerts()},
		}, {
			use: "consul", short: "Move keys from Consul to the cell", like: "kv import",
			sub: []command{a.importKeys()},
		},
	}
}

func (a *app) version() command {
	return viewer(a, command{use: "version", short: "Print the version of this program"},
		func(context.Context, []string) (buildinfo.Info, error) { return buildinfo.Get(), nil },
		func(v buildinfo.Info) { a.ui.printf("stout %s\n", v) })
}

// prepare runs before every command. It checks the shared flags and creates the
// client, without calling the cell.
func (a *app) prepare(cmd *cobra.Command, _ []string) error {
	if err := a.checkFlags(); err != nil {
		return err
	}
	if err := a.certificates(cmd.Context()); err != nil {
		return err
	}
	if err := a.credential(); err != nil {
		return err
	}
	if a.tokenFrom != "" && certs.Exposed(a.tokenFrom) {
		a.ui.note("every user of this machine can read the access token in %s; chmod 600 %s", a.tokenFrom, a.tokenFrom)
	}
	if err := a.connect(); err != nil {
		return err
	}
	a.started = true
	return nil
}

func (a *app) checkFlags() error {
	switch a.opts.output {
	case "table", "json":
	default:
		return usagef("--output is %q; it must be table or json", a.opts.output)
	}
	if a.opts.timeout <= 0 {
		return usagef("--timeout is %v; it must be above zero", a.opts.timeout)
	}
	a.ui = newUI(a)
	return nil
}

// connect creates the client for the servers named by flag, environment or
// default.
func (a *app) connect() error {
	source := "--server"
	if len(a.opts.servers) == 0 {
		source = serverEnv
		a.opts.servers = strings.Split(os.Getenv(serverEnv), ",")
	}
	var urls []string
	for _, url := range a.opts.servers {
		url = strings.TrimSpace(url)
		if url == "" {
			continue
		}
		switch name, isName := strings.CutPrefix(url, "dns:"); {
		case isName && a.certs != nil && !strings.HasPrefix(name, "//"):
			url = "dns+https:" + name
		case !isName && !strings.HasPrefix(url, "dns+") && !strings.Contains(url, "://"):
			url = a.scheme() + url
		}
		urls = append(urls, url)
	}
	if len(urls) == 0 {
		source = "the default servers"
		for _, addr := range localCell {
			urls = append(urls, a.scheme()+addr)
		}
	}
	a.opts.servers = urls
	c, err := client.Config{URLs: urls, UserAgent: "stout/" + buildinfo.Version(), Grace: endlessGrace, TLSSource: a.tlsSource(), Token: a.token}.New()
	if err != nil {
		return usagef("%s: %v", source, err).hint("name a replica by the base URL of its API, such as %s, or all of them by a DNS name, such as dns:stout.example.com:7101", a.scheme()+localCell[0])
	}
	a.client, a.admin = c, admin.New(c)
	return nil
}

// bounded limits ctx to --timeout, for one exchange with the cell.
func (a *app) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.opts.timeout)
}

// validPath rejects a malformed path before the cell is called.
func validPath(path string) error {
	err := lockapi.ValidatePath(path)
	if err == nil {
		return nil
	}
	return badPath(path, err, lockapi.ValidatePath("/"+path) == nil)
}

// validPrefix rejects a prefix with which no path can begin. For a prefix
// without its leading slash, an empty list would be misleading.
func validPrefix(prefix string) error {
	begins := func(s string) bool {
		return lockapi.ValidatePath(s) == nil || lockapi.ValidatePath(s+"x") == nil
	}
	if prefix == "" || begins(prefix) {
		return nil
	}
	return badPath(prefix, lockapi.ValidatePath(prefix), begins("/"+prefix))
}

// badPath returns a usage error for a malformed path. slash reports that only
// the leading slash is missing.
func badPath(path string, err error, slash bool) error {
	f := usagef("%s", err.(*lockapi.Error).Detail)
	if slash && !strings.HasPrefix(path, "/") {
		return f.hint("did you mean /%s ?", format.Clean(path))
	}
	return f.hint("a path looks like /db/migrate: up to %d segments, each after a slash", lockapi.MaxPathSegments)
}
