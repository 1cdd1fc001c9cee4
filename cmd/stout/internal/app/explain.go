package app

import (
	"context"
	"errors"
	"strings"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/survey"
	"github.com/stoutlock/stout/lockapi"
)

// Explain turns any error into a message, advice and an exit code.
func (a *App) Explain(err error) *exit.Failure {
	if f, ok := errors.AsType[*exit.Failure](err); ok {
		return f
	}
	unknown := errors.Is(err, client.ErrOutcomeUnknown) // more important than the timeout
	if errors.Is(err, client.ErrNoMaster) || errors.Is(err, context.DeadlineExceeded) && !unknown {
		ctx, cancel := context.WithTimeout(context.Background(), survey.LastWords)
		defer cancel()
		return a.Collector().Explain(ctx, a.Options.Timeout)
	}
	f := &exit.Failure{Code: exit.Failed, Message: strings.ReplaceAll(strings.TrimPrefix(err.Error(), "stout: "), "\n", "; ")}
	code, _ := errors.AsType[lockapi.Code](err)
	if api, ok := errors.AsType[*lockapi.Error](err); ok {
		code = api.Code
		if api.Detail != "" {
			f.Message = format.Clean(api.Detail)
		}
	}
	switch code {
	case lockapi.CodeInvalidArgument:
		f.Code = exit.Usage
	case lockapi.CodeSessionNotFound:
		f.Hint("stout sessions lists the open sessions")
	case lockapi.CodeConflict: // of a lock, a member or mastership
		if strings.Contains(f.Message, "lock \"") {
			f.Hint("stout locks PATH shows the mode and the limit of the current holders")
		}
	case lockapi.CodeOutcomeUnknown:
		f.Code = exit.Unknown
		f.Hint("the change may or may not be done: check before you repeat it")
	case lockapi.CodeTooMany:
		f.Hint("a quota of the cell is used up; try again later")
	case lockapi.CodeUnauthenticated:
		if a.Token == nil && a.Options.Files.Cert == "" {
			f.Hint("send a credential: --token-file FILE, STOUT_AUTH_TOKEN_FILE, or --cert and --key; an operator makes one with stout token create")
			f.Hint("if every root token is lost, set break-glass-token-file on the replicas")
		} else {
			f.Hint("the cell does not accept this credential; stout access whoami checks it")
		}
	case lockapi.CodePermissionDenied:
		if api, ok := errors.AsType[*lockapi.Error](err); ok && format.IsLiteral(api.Path) { // a foreign path must be safe to paste into a shell
			f.Hint("stout access check %s shows what you may do there, and by which rule", api.Path)
		} else {
			f.Hint("stout access whoami shows your principal")
		}
	}
	return f
}
