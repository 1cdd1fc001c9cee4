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
	"github.com/stoutlock/stout/lockapi"
)

// Exit codes. Those of stout lock beside the command's own can be chosen.
const (
	exitOK          = 0
	exitFailed      = 1   // the answer is no: not valid, nothing to release, refused
	exitUsage       = 2   // the command line is wrong; nothing was done
	exitNoMaster    = 3   // replicas answer, and the cell has no master now
	exitUnreachable = 4   // no replica answers
	exitUnknown     = 6   // a change may or may not be done (5 is that of doctor and rehearse)
	exitUnwritten   = 74  // the answer could not be written (EX_IOERR), whatever it was
	exitUnavailable = 69  // stout lock: the cell could not give it (EX_UNAVAILABLE of sysexits.h)
	exitConflict    = 75  // stout lock: somebody else has it, or it is delayed (EX_TEMPFAIL)
	exitLost        = 76  // stout lock: lost before the command ended, whatever its own code
	exitSignal      = 128 // + n: ended by signal n
)

// readExits and changeExits are the exit codes of commands that read, and of those that
// change something. done and no are what 0 and 1 stand for.
func readExits(done, no string) string {
	return "0 " + done + ", 1 " + no + ", 2 wrong usage, 3 the cell has no master, 4 no replica can be reached"
}

func changeExits(done, no string) string {
	return readExits(done, no) + ", 6 it is not known whether it is done"
}

// The exit codes of a command that has nothing to add.
var (
	reads   = readExits("done", "the cell said no") + ", 74 the answer can't be written"
	changes = changeExits("done", "the cell said no") + ", 74 the answer can't be written"
)

// failure is an error that knows its exit code and what to do about it. An
// empty message prints nothing: all was said already, or the code says it.
type failure struct {
	code    int
	message string
	details []string // printed below the message, one to a line
	hints   []string // and what to do, below that
	// expected: the exit code says it all; with --quiet nothing is printed.
	expected bool
	// interrupted: a Ctrl-C ended us, and the shell must see that it did.
	interrupted bool
	// unread: the reader of standard output has gone, and ends us.
	unread bool
}

func (f *failure) Error() string { return f.message }

// usagef is a mistake in the command line.
func usagef(format string, args ...any) *failure {
	return &failure{code: exitUsage, message: fmt.Sprintf(format, args...)}
}

// tell adds a line of details.
func (f *failure) tell(format string, args ...any) *failure {
	f.details = append(f.details, fmt.Sprintf(format, args...))
	return f
}

// hint adds a line of advice.
func (f *failure) hint(format string, args ...any) *failure {
	f.hints = append(f.hints, fmt.Sprintf(format, args...))
	return f
}

// explain turns any error into what a person is told and a shell sees.
func (a *app) explain(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	unknown := errors.Is(err, client.ErrOutcomeUnknown) // that is the thing to say
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
			f.message = clean(api.Detail)
		}
	}
	switch code {
	case lockapi.CodeInvalidArgument:
		f.code = exitUsage
	case lockapi.CodeSessionNotFound:
		f.hint("it was closed or has expired; stout sessions lists the open ones")
	case lockapi.CodeConflict:
		f.hint("stout locks PATH shows the mode and the limit of the present holders")
	case lockapi.CodeOutcomeUnknown:
		f.code = exitUnknown
		f.hint("it may or may not be done: look how things are before it is done again")
	case lockapi.CodeTooMany:
		f.hint("a quota of the cell is used up; try again later")
	case lockapi.CodeUnauthenticated:
		if a.token == nil && a.opts.files.Cert == "" {
			f.hint("say who you are: --token-file FILE, or --cert and --key; a token is what stout token create makes")
		} else {
			f.hint("the credential that was sent is not one that the cell takes; stout access whoami tries it")
		}
	case lockapi.CodePermissionDenied:
		if api, ok := errors.AsType[*lockapi.Error](err); ok && plainWord(api.Path) { // others chose it: a shell is to read it as itself
			f.hint("stout access check %s shows what you may do there, and by which rule", api.Path)
		} else {
			f.hint("stout access whoami shows who the cell takes you for")
		}
	case lockapi.CodeNotFound:
		f.hint("does the URL belong to a stoutd replica? it was %s", strings.Join(a.opts.servers, ", "))
	}
	return f
}

// diagnose looks at the cell after a call that had no outcome within the given
// time, and says why, before ctx ends: that no replica answers, that there is
// no master, or that there is one, which did not answer.
//
// A replica whose master hangs takes longer to say so than there may be time.
// So each is asked beside that about itself.
func (a *app) diagnose(ctx context.Context, within time.Duration) *failure {
	dead := make([]error, len(a.opts.servers))
	var asked sync.WaitGroup
	asked.Go(func() {
		ask.Each(a.opts.servers, func(i int, url string) { _, dead[i] = a.client.Replica(ctx, url) })
	})
	cell, err := a.survey(ctx, lastWords)
	if f, ok := errors.AsType[*failure](err); ok {
		asked.Wait()
		return cmp.Or(a.masterSilent(cell.failed, dead, within), f)
	}
	if ask.IsDenial(err) {
		return (&failure{code: exitNoMaster, message: "no master has answered within " + human(within)}).
			hint("stout status shows which replicas are well, to who may observe the cell")
	}
	if !ask.InOffice(cell.Cell) {
		a.examine(ctx, &cell) // one that is none of the cell's counts for nothing
		return a.noMaster(cell.Cell)
	}
	return (&failure{code: exitUnreachable, message: "the cell did not answer within " + human(within)}).
		tell("%s is master, at %s", clean(cell.Master.ID), clean(cell.Master.URL)).
		hint("give it more time; stout status shows which replicas are well")
}

// masterSilent is the error of a cell whose replicas live, and get no answer of
// their master. failed, by server, is why they told nothing of the cell, and
// dead why they told nothing of themselves. It is nil where none is such a
// replica.
func (a *app) masterSilent(failed map[string]error, dead []error, within time.Duration) *failure {
	out := &failure{code: exitNoMaster, message: "no master has answered within " + human(within)}
	for i, url := range a.opts.servers {
		if dead[i] == nil && !ask.IsRefusal(failed[url]) {
			out.tell("%s: answers, and its master does not", url)
		}
	}
	if len(out.details) == 0 {
		return nil
	}
	return out.hint("stout status shows which replicas are well")
}
