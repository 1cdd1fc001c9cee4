package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Exit codes. stout lock adds two that can be chosen, and the command's own.
const (
	exitOK          = 0
	exitFailed      = 1   // the answer is no: not valid, nothing to release, refused
	exitUsage       = 2   // the command line is wrong; nothing was done
	exitNoMaster    = 3   // replicas answer, and the cell has no master now
	exitUnreachable = 4   // no replica answers
	exitConflict    = 75  // stout lock: not got in time (EX_TEMPFAIL of sysexits.h)
	exitLost        = 76  // stout lock: lost before the command ended, whatever its own code
	exitSignal      = 128 // + n: ended by signal n
)

// exitHelp is part of the help of every command that has nothing to add.
const exitHelp = `Exit codes: 0 done, 1 the cell said no, 2 wrong usage, 3 the cell has no
master, 4 no replica can be reached.`

// failure is an error that knows its exit code and what to do about it. An
// empty message prints nothing: all was said already, or the code says it.
type failure struct {
	code    int
	message string
	details []string // printed below the message, one to a line
	hints   []string // and what to do, below that
	// interrupted: a Ctrl-C ended us, and the shell shall see that it did.
	interrupted bool
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
	if errors.Is(err, client.ErrNoMaster) || errors.Is(err, context.DeadlineExceeded) {
		if f := a.diagnose(err); f != nil {
			return f
		}
	}
	f := &failure{code: exitFailed, message: strings.TrimPrefix(err.Error(), "stout: ")}
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
		f.hint("it was closed or has expired; stout sessions lists those that live")
	case lockapi.CodeConflict:
		f.hint("stout locks PATH shows the mode and the limit of the present holders")
	case lockapi.CodeOutcomeUnknown:
		f.hint("mastership changed during the call; look whether it took effect, or repeat it: that does no harm")
	case lockapi.CodeTooMany:
		f.hint("a quota of the cell is used up; try again later")
	case lockapi.CodeNotFound:
		f.hint("does the URL belong to a stoutd replica? it was %s", strings.Join(a.opts.servers, ", "))
	}
	return f
}

// probeTimeout bounds how long a failed command goes on to find out why.
const probeTimeout = time.Second

// diagnose asks each server by itself, to tell a cell without a master from
// servers that do not answer, and says of each what is the matter with it. It
// returns nil where replicas answer and the cause is another than no master.
func (a *app) diagnose(cause error) *failure {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	replicas, failed := a.probe(ctx, a.opts.servers)
	out := &failure{code: exitUnreachable, message: "no replica can be reached"}
	for i, url := range a.opts.servers {
		if failed[i] != nil {
			out.tell("%s: %v", url, reason(failed[i]))
			continue
		}
		out.tell("%s: answers, as replica %s", url, clean(replicas[i].ID))
		out.code, out.message = exitNoMaster, "the cell has no master now"
	}
	if out.code == exitUnreachable {
		return out.hint("name the replicas' API addresses with --server or %s; is stoutd running there?", serverEnv)
	}
	if !errors.Is(cause, client.ErrNoMaster) {
		return nil
	}
	return out.hint("most of the replicas must be up and see each other; stout status shows them")
}

// reason is the innermost part of an error: that the connection was refused,
// not by which call of whose library.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within " + human(probeTimeout)
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}
