// Package app has what every command of stout needs: the shared flags, the
// client, credentials, questions, signals and completion. Command describes a
// command as a value. The commands themselves are in other packages.
package app

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
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/survey"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/lockapi"
)

// DefaultTimeout is the default of --timeout.
const DefaultTimeout = 5 * time.Second

// endlessGrace keeps a waiting session alive for as long as its watch runs,
// even without a master. It does not affect a held lock, which ends with its
// lease.
const endlessGrace = 365 * 24 * time.Hour

// localCell has the addresses of a cell on this machine, as started by make run
// or stoutd --dev. Any of its replicas may be down.
var localCell = []string{"127.0.0.1:7101", "127.0.0.1:7102", "127.0.0.1:7103"}

// App is one run of stout.
type App struct {
	ui.Streams
	Options   Options
	UI        *ui.UI
	Client    *client.Client
	Admin     *admin.Admin
	Via       http.RoundTripper                     // for calls outside the client; nil for a new transport
	Token     func(context.Context) (string, error) // nil if no access token was named
	tokenFrom string                                // its file; empty if it came from the environment
	Certs     *certs.Source                         // nil if no certificates were named
	started   bool                                  // the command line was understood
	Flags     *pflag.FlagSet                        // of the command that runs
}

// Options holds the flags shared by all commands.
type Options struct {
	Servers []string
	Files   certs.Files

	tokenFile string
	output    string
	Timeout   time.Duration
	NoColour  bool
	quiet     bool

	Stale, Yes, Force bool // see AddStale, AddYes and AddForce
}

// AddStale, AddYes and AddForce add flags that several commands have. A command
// with --force has --yes as well.
func (a *App) AddStale(f *pflag.FlagSet) {
	f.BoolVar(&a.Options.Stale, "stale", false, "let any replica answer, even without a master; the answer may be out of date")
}

func (a *App) AddYes(f *pflag.FlagSet) {
	f.BoolVarP(&a.Options.Yes, "yes", "y", false, "skip the question")
}

func (a *App) AddForce(f *pflag.FlagSet) {
	a.AddYes(f)
	f.BoolVar(&a.Options.Force, "force", false, "continue even if too few other members are healthy")
}

// ReadOptions returns the options of a read.
func (a *App) ReadOptions() []client.ReadOption {
	if a.Options.Stale {
		return []client.ReadOption{client.Stale()}
	}
	return nil
}

// Main executes the command line args (without the program's name) and returns
// the exit code. It writes to the given files only.
func Main(ctx context.Context, args []string, stdin, stdout, stderr *os.File, commands func(*App) []Command) int {
	// Writes to a closed pipe then fail instead of killing the process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &App{Streams: ui.NewStreams(stdin, stdout, stderr, cancel)}
	a.UI = ui.NewUI(a.Streams, false, false, false) // until the flags are known
	root := Root(a, commands(a))
	root.SetArgs(args)
	root.SetOut(a.Answers)
	root.SetErr(a.Notices)
	cmd, err := root.ExecuteContextC(ctx)
	if a.Client != nil {
		_ = a.Client.Close()
	}
	f := a.ending(cmd, err)
	a.UI.Failure(f)
	a.Notices.Flush(ui.LastNotices)
	switch {
	case f.Interrupted:
		child.DieOfInterrupt()
	case f.Unread:
		child.DieOfPipe(stdout)
	}
	return f.Code
}

// ending returns how a run ends after its command returned err. An answer that
// could not be written outranks every other error: the caller does not have it.
// A reader that has read enough, such as head, is no error: the run then ends
// by SIGPIPE, as other programs do.
func (a *App) ending(cmd *cobra.Command, err error) *exit.Failure {
	switch lost := a.Answers.Lost(); {
	case errors.Is(lost, syscall.EPIPE):
		return &exit.Failure{Code: exit.Signal + int(syscall.SIGPIPE), Unread: true}
	case lost != nil:
		return exit.Errorf(exit.NotWritten, "the answer is incomplete: %v", lost)
	case err != nil:
		return a.Explain(a.usage(cmd, err))
	}
	return &exit.Failure{Code: exit.OK}
}

// usage marks errors from before the command began as usage errors. cobra
// returns such errors for unknown commands, unknown flags and wrong argument
// counts.
func (a *App) usage(cmd *cobra.Command, err error) error {
	f, ok := errors.AsType[*exit.Failure](err)
	if a.started && (!ok || f.Code != exit.Usage) {
		return err
	}
	if !ok {
		f = misunderstood(cmd, err)
	}
	return f.Hint("%s --help shows the usage", cmd.CommandPath())
}

func misunderstood(cmd *cobra.Command, err error) *exit.Failure {
	message, _, _ := strings.Cut(err.Error(), "\n")
	var word, at string
	if _, err := fmt.Sscanf(message, "unknown command %q for %q", &word, &at); err != nil {
		return exit.Usagef("%s", message)
	}
	if !cmd.HasSubCommands() {
		return exit.Usagef("unexpected argument %q", word)
	}
	f := exit.Usagef("unknown command %q for %q", word, at)
	if like := suggestions(cmd, word); len(like) > 0 {
		f.Hint("did you mean %s?", strings.Join(like, " or "))
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

// Root returns the root of the command line.
func Root(a *App, commands []Command) *cobra.Command {
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
	cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", ui.PageWidth)))
	flags := cmd.PersistentFlags()
	flags.StringSliceVarP(&a.Options.Servers, "server", "s", nil,
		"base `URLs` of replicas, or dns:NAME:PORT, separated by commas (default $"+survey.ServerEnv+", else localhost's ports 7101 to 7103)")
	flags.StringVar(&a.Options.Files.CA, "ca-cert", "", "`file` with the CAs of the replicas' certificates (default $"+caCertEnv+", else the system's CAs)")
	flags.StringVar(&a.Options.Files.Cert, "cert", "", "`file` of the client certificate to present (default $"+certEnv+")")
	flags.StringVar(&a.Options.Files.Key, "key", "", "`file` of its private key (default $"+keyEnv+")")
	flags.StringVar(&a.Options.tokenFile, "token-file", "", "`file` of the access token to send (default $"+tokenFileEnv+", else the token $"+tokenEnv+")")
	flags.StringVarP(&a.Options.output, "output", "o", "table", "output `format`: table, or json as in the HTTP API")
	flags.DurationVar(&a.Options.Timeout, "timeout", DefaultTimeout, "give up if the cell does not answer within this `duration` (lock: 1m)")
	flags.BoolVarP(&a.Options.quiet, "quiet", "q", false, "print results and errors only, and no error that the exit code implies (for cron)")
	flags.BoolVar(&a.Options.NoColour, "no-color", false, "print without colour (like NO_COLOR=1)")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("server", cobra.NoFileCompletions)
	for _, r := range commands {
		cmd.AddCommand(a.build(r, nil))
	}
	return cmd
}

// prepare runs before every command. It checks the shared flags and creates the
// client, without calling the cell.
func (a *App) prepare(cmd *cobra.Command, _ []string) error {
	if err := a.checkFlags(); err != nil {
		return err
	}
	for _, name := range []string{"server", "ca-cert", "cert", "key", "token-file"} { // an unset variable of a script must not mean the default
		if f := cmd.Flags().Lookup(name); f.Changed && strings.Trim(f.Value.String(), "[, ]") == "" {
			return exit.Usagef("--%s is empty", name)
		}
	}
	if err := a.certificates(cmd.Context()); err != nil {
		return err
	}
	if err := a.credential(); err != nil {
		return err
	}
	if a.tokenFrom != "" && certs.Exposed(a.tokenFrom) {
		a.UI.Note("every user of this machine can read the access token in %s; chmod 600 %s", a.tokenFrom, a.tokenFrom)
	}
	if err := a.connect(); err != nil {
		return err
	}
	a.started = true
	return nil
}

func (a *App) checkFlags() error {
	switch a.Options.output {
	case "table", "json":
	default:
		return exit.Usagef("--output is %q; it must be table or json", a.Options.output)
	}
	if a.Options.Timeout <= 0 {
		return exit.Usagef("--timeout is %v; it must be above zero", a.Options.Timeout)
	}
	a.UI = ui.NewUI(a.Streams, a.Options.output == "json", a.Options.quiet, a.Options.NoColour)
	return nil
}

// connect creates the client for the servers named by flag, environment or
// default.
func (a *App) connect() error {
	source := "--server"
	if len(a.Options.Servers) == 0 {
		source = survey.ServerEnv
		a.Options.Servers = strings.Split(os.Getenv(survey.ServerEnv), ",")
	}
	var urls []string
	for _, url := range a.Options.Servers {
		url = strings.TrimSpace(url)
		if url == "" {
			continue
		}
		switch name, isName := strings.CutPrefix(url, "dns:"); {
		case isName && a.Certs != nil && !strings.HasPrefix(name, "//"):
			url = "dns+https:" + name
		case !isName && !strings.HasPrefix(url, "dns+") && !strings.Contains(url, "://"):
			url = a.Scheme() + url
		}
		urls = append(urls, url)
	}
	if len(urls) == 0 {
		source = "the default servers"
		for _, addr := range localCell {
			urls = append(urls, a.Scheme()+addr)
		}
	}
	a.Options.Servers = urls
	c, err := client.Config{URLs: urls, UserAgent: "stout/" + buildinfo.Version(), Grace: endlessGrace, TLSSource: a.TLSSource(), Token: a.Token}.New()
	if err != nil {
		return exit.Usagef("%s: %v", source, err).Hint("name a replica by the base URL of its API, such as %s, or all of them by a DNS name, such as dns:stout.example.com:7101", a.Scheme()+localCell[0])
	}
	a.Client, a.Admin = c, admin.New(c)
	return nil
}

// WithTimeout limits ctx to --timeout, for one exchange with the cell.
func (a *App) WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.Options.Timeout)
}

// ValidPath rejects a malformed path before the cell is called.
func ValidPath(path string) error {
	err := lockapi.ValidatePath(path)
	if err == nil {
		return nil
	}
	return badPath(path, err, lockapi.ValidatePath("/"+path) == nil)
}

// ValidPrefix rejects a prefix with which no path can begin. For a prefix
// without its leading slash, an empty list would be misleading.
func ValidPrefix(prefix string) error {
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
	f := exit.Usagef("%s", err.(*lockapi.Error).Detail)
	if slash && !strings.HasPrefix(path, "/") {
		return f.Hint("did you mean /%s ?", format.Clean(path))
	}
	return f.Hint("a path looks like /db/migrate: up to %d segments, each after a slash", lockapi.MaxPathSegments)
}

// Asker returns a Poller for calls to single replicas.
func (a *App) Asker() ask.Poller {
	return ask.Poller{Servers: slices.Clone(a.Options.Servers), TLS: a.TLSSource(), Token: a.Token, Agent: "stout/" + buildinfo.Version(), Via: a.Via}
}

// Collector returns a Collector for the servers of this run.
func (a *App) Collector() survey.Collector {
	return survey.Collector{Poller: a.Asker(), Admin: a.Admin}
}
