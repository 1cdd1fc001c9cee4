package access

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

const quotasHelp = `Lists the quotas of principals and groups. A quota bounds user:NAME, each member
of group:NAME, anonymous, or "*" for every known principal, while access control
is on. For each limit the principal's own quota decides, else the highest of its
groups, else that of "*". Operators have no limits. This needs the right to
operate the cell.`

// quotas are the commands of stout access quotas.
type quotas struct{ *app.App }

const forQuota = `user:NAME, group:NAME, anonymous, or "*" for every known principal`

func validQuotaOf(of string) error {
	if lockapi.ValidateQuotaOf(of) != nil {
		return badPrincipal(of, forQuota)
	}
	return nil
}

// limitsText returns the limits as setQuota takes them.
func limitsText(l *lockapi.QuotaLimits) string {
	var all []string
	for _, one := range l.Limits() {
		if *one.Limit != nil {
			all = append(all, fmt.Sprintf("%s=%d", one.Name, **one.Limit))
		}
	}
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, " ")
}

func usedText(used *lockapi.QuotaUse) string {
	if used == nil {
		return "-"
	}
	return fmt.Sprintf("sessions=%d holds=%d waiters=%d files=%d bytes=%d", used.Sessions, used.Holds, used.Waiters, used.Files, used.Bytes)
}

func (a *quotas) listQuotas() app.Command {
	return app.Viewer(a.App, app.Command{Use: "list", Short: "List the quotas", Long: quotasHelp, Exits: exit.Reads, SuggestFor: "ls"},
		func(ctx context.Context, _ []string) (l lockapi.QuotaList, err error) {
			l.Quotas, err = app.Collect(a.Admin.Access().Quotas(ctx))
			return l, err
		}, func(l lockapi.QuotaList) {
			ui.List(a.UI, l.Quotas, "the cell has no quotas of principals", []ui.Column{ui.Left("OF"), ui.Left("LIMITS"), ui.Left("USED")}, func(q lockapi.Quota) []string {
				return []string{format.Clean(q.Principal), limitsText(&q.QuotaLimits), usedText(q.Used)}
			})
		})
}

func (a *quotas) showQuota() app.Command {
	return app.Viewer(a.App, app.Command{
		Use: "show PRINCIPAL", Short: "Show a quota and its use", Long: `Shows the limits of PRINCIPAL and, for a principal, what it uses. PRINCIPAL is
` + forQuota + `.`,
		Exits: exit.Reads, SuggestFor: "get", Check: validQuotaOf,
	}, func(ctx context.Context, args []string) (lockapi.Quota, error) {
		return a.Admin.Access().Quota(ctx, args[0])
	}, a.printQuota)
}

func (a *quotas) printQuota(q lockapi.Quota) {
	a.UI.Pairs([2]string{"quota of", format.Clean(q.Principal)}, [2]string{"limits", limitsText(&q.QuotaLimits)}, [2]string{"used", usedText(q.Used)})
}

func (a *quotas) setQuota() app.Command {
	return app.Command{
		Use: "set PRINCIPAL LIMIT=N...", Short: "Replace the limits of a quota", SuggestFor: "put create",
		Long: `Sets the limits of PRINCIPAL, replacing any earlier ones. A limit is sessions,
holds, waiters, files, bytes, watches, calls_per_second, or burst. One that is
left out does not bound, and 0 permits none. What exists stays, however low a
limit is.`,
		Exits: exit.Changes, Check: validQuotaOf, Example: "  stout access quotas set '*' sessions=100 calls_per_second=50 burst=200",
		Run: func(ctx context.Context, args []string) error {
			limits, err := parseLimits(args[1:])
			if err != nil {
				return err
			}
			q, err := a.Admin.Access().PutQuota(ctx, args[0], limits)
			return ui.Answer(a.UI, q, err, a.printQuota)
		},
	}
}

// parseLimits reads arguments such as files=100.
func parseLimits(args []string) (limits lockapi.QuotaLimits, err error) {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		known := false
		for _, one := range limits.Limits() {
			if one.Name != name {
				continue
			}
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 || *one.Limit != nil {
				return limits, exit.Usagef("%q is not a limit; write %s=N once, with a whole number", arg, name)
			}
			*one.Limit, known = &n, true
		}
		if !known {
			return limits, exit.Usagef("%q is not a limit; write LIMIT=N with one of sessions, holds, waiters, files, bytes, watches, calls_per_second, burst", arg)
		}
	}
	if err := limits.Validate(); err != nil {
		return limits, exit.Usagef("%s", err.(*lockapi.Error).Detail)
	}
	return limits, nil
}

func (a *quotas) removeQuota() app.Command {
	return app.Command{
		Use: "remove PRINCIPAL", Short: "Remove a quota", SuggestFor: "rm delete del",
		Long:  `Removes the quota of PRINCIPAL. Those of its groups or of "*" may then apply.`,
		Exits: exit.ChangeExits("removed", "it does not exist, or the cell refused"), Check: validQuotaOf, Unlimited: true,
		Run: func(ctx context.Context, args []string) error {
			of := args[0]
			return remove(ctx, a.App, func(ctx context.Context) error {
				_, err := a.Admin.Access().Quota(ctx, of)
				if err == nil {
					err = a.Admin.Access().DeleteQuota(ctx, of)
				}
				return err
			}, func() { a.UI.Printf("removed the quota of %s\n", format.Clean(of)) })
		},
	}
}
