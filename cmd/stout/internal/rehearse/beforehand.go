package rehearse

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// Before is the cell before the change.
type Before struct {
	Cell     lockapi.Cell
	Members  lockapi.Members
	Sessions []lockapi.SessionState
	To       string   // the new master; empty for any
	Caller   string   // the caller, if access control is on
	Lacks    []string // required rights that the caller lacks
}

// Warning is an objection: a no-go, or one for the operator to weigh.
type Warning struct {
	NoGo bool   `json:"no_go"`
	What string `json:"what"`
}

const (
	// closeBehind is how many entries a member may be behind. A healthy one is
	// a few behind on a busy cell.
	closeBehind = 64
	// listed is how many sessions are named in a concern.
	listed = 10
)

// Gap returns how long service may pause if everything works: a hand-over needs
// an election.
func (b *Before) Gap() time.Duration { return time.Duration(b.Cell.Lease.TermMS) * time.Millisecond }

// Assess returns the objections to a change of master, the worst first.
func Assess(b *Before) []Warning {
	var out []Warning
	no := func(format string, args ...any) { out = append(out, Warning{true, fmt.Sprintf(format, args...)}) }
	if b.Cell.Master == nil || !b.Cell.Lease.Held {
		no("no master holds its lease")
		return out
	}
	if len(b.Lacks) > 0 {
		no("%s may not %s, which is required", b.Caller, strings.Join(b.Lacks, ", nor "))
	}
	voters, changing := 0, map[string]int{}
	for _, m := range b.Members.Members {
		if changing[m.ID]++; changing[m.ID] == 2 {
			no("a change of the members is under way: the directory of %s is being replaced", m.ID)
		}
		if m.Suffrage != lockapi.SuffrageVoter {
			continue
		}
		voters++
		switch {
		case !m.Healthy:
			no("%s is unhealthy", m.ID)
		case m.Behind > closeBehind:
			no("%s is %d entries behind", m.ID, m.Behind)
		}
	}
	if voters < 2 {
		no("no other replica could become master")
	} else if b.Members.Tolerates < 1 {
		no("the cell tolerates no failure: any problem during the change would stop it")
	}
	if b.To != "" {
		switch i := slices.IndexFunc(b.Members.Members, func(m lockapi.Member) bool { return m.ID == b.To }); {
		case i < 0:
			no("the cell has no member %s", b.To)
		case b.To == b.Cell.Master.ID:
			no("%s is already the master", b.To)
		case b.Members.Members[i].Suffrage != lockapi.SuffrageVoter:
			no("%s has no vote and cannot be master", b.To)
		}
	}
	return append(out, b.sessions()...)
}

// sessions returns concerns about sessions that may not survive the gap: those
// with late keepalives or with little time left.
func (b *Before) sessions() []Warning {
	var late, short []lockapi.SessionState
	for _, s := range b.Sessions {
		switch left := leftOf(s); {
		case s.LeaseRemainingMS == nil:
		case left < ttlOf(s)/4:
			late = append(late, s)
		case ttlOf(s) < 2*b.Gap() || left < b.Gap():
			short = append(short, s)
		}
	}
	var out []Warning
	if len(late) > 0 {
		out = append(out, Warning{false, fmt.Sprintf("%s with less than a quarter of the ttl left, so keepalives seem to be missing: %s", format.Plural(len(late), "session"), nearest(late))})
	}
	if len(short) > 0 {
		out = append(out, Warning{false, fmt.Sprintf("%s may nearly expire in a gap of %s: %s", format.Plural(len(short), "session"), b.Gap(), nearest(short))})
	}
	return out
}

func ttlOf(s lockapi.SessionState) time.Duration { return time.Duration(s.TTLMS) * time.Millisecond }

func leftOf(s lockapi.SessionState) time.Duration {
	if s.LeaseRemainingMS == nil {
		return 0
	}
	return time.Duration(*s.LeaseRemainingMS) * time.Millisecond
}

func nearest(all []lockapi.SessionState) string {
	slices.SortFunc(all, func(a, b lockapi.SessionState) int { return cmp.Compare(leftOf(a), leftOf(b)) })
	var first []string
	for _, s := range all[:min(len(all), listed)] {
		first = append(first, fmt.Sprintf("%s (%s of %s)", cmp.Or(s.Name, s.ID), leftOf(s), ttlOf(s)))
	}
	text := strings.Join(first, ", ")
	if more := len(all) - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Go reports whether no concern is a no-go.
func Go(concerns []Warning) bool {
	return !slices.ContainsFunc(concerns, func(c Warning) bool { return c.NoGo })
}

// Rights records in b which rights the caller lacks.
func (r *Rehearsal) Rights(ctx context.Context, b *Before) (err error) {
	if !b.Cell.Access {
		return nil
	}
	var who lockapi.WhoAmI // with rights, which the client does not request
	for _, base := range r.URLs {
		if _, err = r.Poller.Get(ctx, base, lockapi.RouteWhoAmI+"?rights=true", &who); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("read the rights to the cell: %w", err)
	}
	path := strings.TrimRight(r.Path, "/") + "/held"
	may, err := r.admin().Access().Check(ctx, path, "")
	if err != nil {
		return fmt.Errorf("read the rights to lock %s: %w", path, err)
	}
	b.Caller, b.Lacks = who.Principal, nil
	for _, right := range []struct {
		has  bool
		what string
	}{
		{who.Operate, "operate the cell"}, {who.Observe, "observe it"},
		{may.Lock.Allowed, "lock below " + r.Path}, {may.Read.Allowed, "read below " + r.Path},
	} {
		if !right.has {
			b.Lacks = append(b.Lacks, right.what)
		}
	}
	return nil
}
