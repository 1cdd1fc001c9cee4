package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// Exit codes. Flags of stout lock change its codes 69, 75 and 76.
const (
	exitOK          = 0
	exitFailed      = 1   // the answer is no: not valid, nothing to release, refused
	exitUsage       = 2   // the command line is wrong; nothing was done
	exitNoMaster    = 3   // replicas answer, but the cell has no master
	exitUnreachable = 4   // no replica answers
	exitUnknown     = 6   // a change may or may not be done (5 is used by doctor and rehearse)
	exitRefused     = 77  // stout lock: the cell refused it (EX_NOPERM)
	exitUnwritten   = 74  // the answer could not be written (EX_IOERR)
	exitUnavailable = 69  // stout lock: the cell could not grant it (EX_UNAVAILABLE of sysexits.h)
	exitConflict    = 75  // stout lock: another session holds it, or it is delayed (EX_TEMPFAIL)
	exitLost        = 76  // stout lock: lost before the command ended
	exitSignal      = 128 // + n: ended by signal n
)

// readExits and changeExits describe the exit codes of commands that read and
// of commands that change something. done and no describe 0 and 1.
func readExits(done, no string) string {
	return "0 " + done + ", 1 " + no + ", 2 wrong usage, 3 the cell has no master, 4 no replica can be reached"
}

func changeExits(done, no string) string {
	return readExits(done, no) + ", 6 the outcome is unknown"
}

// The exit codes of commands without special ones.
var (
	reads   = readExits("done", "the cell refused") + ", 74 the answer can't be written"
	changes = changeExits("done", "the cell refused") + ", 74 the answer can't be written"
)

// failure is an error with an exit code and advice. An empty message prints
// nothing: everything was printed already, or the code is enough.
type failure struct {
	code    int
	message string
	details []string // printed below the message, one per line
	hints   []string // advice, printed below the details
	// expected: the exit code is enough; --quiet prints no message.
	expected bool
	// interrupted: Ctrl-C ended stout, and the shell must notice that.
	interrupted bool
	// unread: the reader of standard output has closed the pipe.
	unread bool
}

func (f *failure) Error() string { return f.message }

func usagef(format string, args ...any) *failure {
	return &failure{code: exitUsage, message: fmt.Sprintf(format, args...)}
}

func (f *failure) detail(format string, args ...any) *failure {
	f.details = append(f.details, fmt.Sprintf(format, args...))
	return f
}

func (f *failure) hint(format string, args ...any) *failure {
	f.hints = append(f.hints, fmt.Sprintf(format, args...))
	return f
}

// explain turns any error into a message, advice and an exit code.
func (a *app) explain(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	unknown := errors.Is(err, client.ErrOutcomeUnknown) // more important than the timeout
	if errors.Is(err, client.ErrNoMaster) || errors.Is(err, context.DeadlineExceeded) && !unknown {
		ctx, cancel := context.WithTimeout(context.Background(), lastWords)
		defer cancel()
		return a.diagnose(ctx, a.opts.timeout)
	}
	f := &failure{code: exitFailed, message: strings.ReplaceAll(strings.TrimPrefix(err.Error(), "stout: "), "\n", "; ")}
	code, _ := errors.AsType[lockapi.Code](err)
	if api, ok := errors.AsType[*lockapi.Error](err); ok {
		code = api.Code
		if api.Detail != "" {
			f.message = format.Clean(api.Detail)
		}
	}
	switch code {
	case lockapi.CodeInvalidArgument:
		f.code = exitUsage
	case lockapi.CodeSessionNotFound:
		f.hint("stout sessions lists the open sessions")
	case lockapi.CodeConflict: // of a lock, a member or mastership
		if strings.Contains(f.message, "lock \"") {
			f.hint("stout locks PATH shows the mode and the limit of the current holders")
		}
	case lockapi.CodeOutcomeUnknown:
		f.code = exitUnknown
		f.hint("the change may or may not be done: check before you repeat it")
	case lockapi.CodeTooMany:
		f.hint("a quota of the cell is used up; try again later")
	case lockapi.CodeUnauthenticated:
		if a.token == nil && a.opts.files.Cert == "" {
			f.hint("send a credential: --token-file FILE, STOUT_AUTH_TOKEN_FILE, or --cert and --key; an operator makes one with stout token create")
			f.hint("if every root token is lost, set break-glass-token-file on the replicas")
		} else {
			f.hint("the cell does not accept this credential; stout access whoami checks it")
		}
	case lockapi.CodePermissionDenied:
		if api, ok := errors.AsType[*lockapi.Error](err); ok && format.IsLiteral(api.Path) { // a foreign path must be safe to paste into a shell
			f.hint("stout access check %s shows what you may do there, and by which rule", api.Path)
		} else {
			f.hint("stout access whoami shows your principal")
		}
	}
	return f
}

// diagnose examines the cell after a call without outcome, and returns the
// reason before ctx ends: no replica answers, there is no master, or the master
// did not answer.
//
// A replica may take too long to report that its master hangs. So each replica
// is also asked about itself.
func (a *app) diagnose(ctx context.Context, within time.Duration) *failure {
	dead := make([]error, len(a.opts.servers))
	var asked sync.WaitGroup
	asked.Go(func() {
		ask.Each(a.opts.servers, func(i int, url string) { _, dead[i] = a.admin.Replica(ctx, url) })
	})
	cell, err := a.survey(ctx, lastWords)
	if f, ok := errors.AsType[*failure](err); ok {
		asked.Wait()
		return cmp.Or(a.masterSilent(cell.failed, dead, within), f)
	}
	if ask.IsDenial(err) {
		return (&failure{code: exitNoMaster, message: "no master has answered within " + format.Human(within)}).
			hint("stout status shows which replicas are healthy; it needs the right to observe the cell")
	}
	if !ask.InOffice(cell.Cell) {
		a.examine(ctx, &cell) // a replica outside the cell does not count as up
		return a.noMaster(cell.Cell)
	}
	return (&failure{code: exitUnreachable, message: "the cell did not answer within " + format.Human(within)}).
		detail("%s is master, at %s", format.Clean(cell.Master.ID), format.Clean(cell.Master.URL)).
		hint("try a longer --timeout; stout status shows which replicas are healthy")
}

// masterSilent reports that replicas answer but their master does not, or nil
// if no replica answers. failed and dead have the errors of asking each server
// for the cell and for itself.
func (a *app) masterSilent(failed map[string]error, dead []error, within time.Duration) *failure {
	out := &failure{code: exitNoMaster, message: "no master has answered within " + format.Human(within)}
	for i, url := range a.opts.servers {
		if dead[i] == nil && !ask.IsRefusal(failed[url]) {
			out.detail("%s: answers, but its master does not", url)
		}
	}
	if len(out.details) == 0 {
		return nil
	}
	return out.hint("stout status shows which replicas are healthy")
}
