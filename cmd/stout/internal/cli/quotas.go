package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

const quotasHelp = `Lists the quotas of principals and groups. A quota bounds user:NAME, each member
of group:NAME, anonymous, or "*" for every known principal, while access control
is on. For each limit the principal's own quota decides, else the highest of its
groups, else that of "*". Operators have no limits. This needs the right to
operate the cell.`

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

func (a *app) listQuotas() command {
	return viewer(a, command{use: "list", short: "List the quotas", long: quotasHelp, exits: reads, like: "ls"},
		func(ctx context.Context, _ []string) (l lockapi.QuotaList, err error) {
			l.Quotas, err = collect(a.admin.Access().Quotas(ctx))
			return l, err
		}, func(l lockapi.QuotaList) {
			list(a.ui, l.Quotas, "the cell has no quotas of principals", []column{left("OF"), left("LIMITS"), left("USED")}, func(q lockapi.Quota) []string {
				return []string{format.Clean(q.Principal), limitsText(&q.QuotaLimits), usedText(q.Used)}
			})
		})
}

func (a *app) showQuota() command {
	return viewer(a, command{
		use: "show PRINCIPAL", short: "Show a quota and its use", long: `Shows the limits of PRINCIPAL and, for a principal, what it uses. PRINCIPAL is
` + forQuota + `.`,
		exits: reads, like: "get", check: validQuotaOf,
	}, func(ctx context.Context, args []string) (lockapi.Quota, error) {
		return a.admin.Access().Quota(ctx, args[0])
	}, a.printQuota)
}

func (a *app) printQuota(q lockapi.Quota) {
	a.ui.pairs([2]string{"quota of", format.Clean(q.Principal)}, [2]string{"limits", limitsText(&q.QuotaLimits)}, [2]string{"used", usedText(q.Used)})
}

func (a *app) setQuota() command {
	return command{
		use: "set PRINCIPAL LIMIT=N...", short: "Replace the limits of a quota", like: "put create",
		long: `Sets the limits of PRINCIPAL, replacing any earlier ones. A limit is sessions,
holds, waiters, files, bytes, watches, calls_per_second, or burst. One that is
left out does not bound, and 0 permits none. What exists stays, however low a
limit is.`,
		exits: changes, check: validQuotaOf, example: "  stout access quotas set '*' sessions=100 calls_per_second=50 burst=200",
		run: func(ctx context.Context, args []string) error {
			limits, err := parseLimits(args[1:])
			if err != nil {
				return err
			}
			q, err := a.admin.Access().PutQuota(ctx, args[0], limits)
			return answer(a.ui, q, err, a.printQuota)
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
				return limits, usagef("%q is not a limit; write %s=N once, with a whole number", arg, name)
			}
			*one.Limit, known = &n, true
		}
		if !known {
			return limits, usagef("%q is not a limit; write LIMIT=N with one of sessions, holds, waiters, files, bytes, watches, calls_per_second, burst", arg)
		}
	}
	if err := limits.Validate(); err != nil {
		return limits, usagef("%s", err.(*lockapi.Error).Detail)
	}
	return limits, nil
}

func (a *app) removeQuota() command {
	return command{
		use: "remove PRINCIPAL", short: "Remove a quota", like: "rm delete del",
		long:  `Removes the quota of PRINCIPAL. Those of its groups or of "*" may then apply.`,
		exits: changeExits("removed", "it does not exist, or the cell refused"), check: validQuotaOf, endless: true,
		run: func(ctx context.Context, args []string) error {
			of := args[0]
			return a.remove(ctx, func(ctx context.Context) error {
				_, err := a.admin.Access().Quota(ctx, of)
				if err == nil {
					err = a.admin.Access().DeleteQuota(ctx, of)
				}
				return err
			}, func() { a.ui.printf("removed the quota of %s\n", format.Clean(of)) })
		},
	}
}
