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

// Before is the cell before anything is done.
type Before struct {
	Cell     lockapi.Cell
	Members  lockapi.Members
	Sessions []lockapi.SessionState
	To       string   // who is to be master; empty for any
	Caller   string   // who asks, where the cell has access control on
	Lacks    []string // rights that the caller has not, and which it takes
}

// Concern speaks against it: for good, or for a person to weigh.
type Concern struct {
	NoGo bool   `json:"no_go"`
	What string `json:"what"`
}

const (
	// closeBehind is how many entries a member may lack: a healthy one is a few
	// behind while the cell is busy.
	closeBehind = 64
	// listed is how many sessions are named.
	listed = 10
)

// Gap is for how long service may be missed, at most, if all goes well: a hand-over
// needs an election.
func (b *Before) Gap() time.Duration { return time.Duration(b.Cell.Lease.TermMS) * time.Millisecond }

// Beforehand is what speaks against it, worst first; nothing where all is well.
func Beforehand(b *Before) []Concern {
	var out []Concern
	no := func(format string, args ...any) { out = append(out, Concern{true, fmt.Sprintf(format, args...)}) }
	if b.Cell.Master == nil || !b.Cell.Lease.Held {
		no("no master holds its lease")
		return out
	}
	if len(b.Lacks) > 0 {
		no("%s may not %s, which it takes", b.Caller, strings.Join(b.Lacks, ", nor "))
	}
	voters, changing := 0, map[string]int{}
	for _, m := range b.Members.Members {
		if changing[m.ID]++; changing[m.ID] == 2 {
			no("a change of the members is under way: a new directory takes the place of %s's", m.ID)
		}
		if m.Suffrage != lockapi.SuffrageVoter {
			continue
		}
		voters++
		switch {
		case !m.Healthy:
			no("%s is not well", m.ID)
		case m.Behind > closeBehind:
			no("%s is %d entries behind", m.ID, m.Behind)
		}
	}
	if voters < 2 {
		no("there is nobody else who could be master")
	} else if b.Members.Tolerates < 1 {
		no("the cell bears no failure: if anything went wrong meanwhile it would stop")
	}
	if b.To != "" {
		switch i := slices.IndexFunc(b.Members.Members, func(m lockapi.Member) bool { return m.ID == b.To }); {
		case i < 0:
			no("the cell has no member %s", b.To)
		case b.To == b.Cell.Master.ID:
			no("%s is the master already", b.To)
		case b.Members.Members[i].Suffrage != lockapi.SuffrageVoter:
			no("%s has no vote and can't be master", b.To)
		}
	}
	return append(out, b.sessions()...)
}

// sessions are those that may not bear it: those that are not kept alive as it is,
// and those that are good for hardly longer than the gap.
func (b *Before) sessions() []Concern {
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
	var out []Concern
	if len(late) > 0 {
		out = append(out, Concern{false, fmt.Sprintf("%s with less than a quarter of the ttl left, as if nobody kept it alive: %s", format.Plural(len(late), "session"), nearest(late))})
	}
	if len(short) > 0 {
		out = append(out, Concern{false, fmt.Sprintf("%s may come near its end in a gap of %s: %s", format.Plural(len(short), "session"), b.Gap(), nearest(short))})
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

// nearest names the sessions that end first.
func nearest(all []lockapi.SessionState) string {
	slices.SortFunc(all, func(a, b lockapi.SessionState) int { return cmp.Compare(leftOf(a), leftOf(b)) })
	text := ""
	for i, s := range all {
		if i == listed {
			return text + fmt.Sprintf(" and %d more", len(all)-i)
		}
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s (%s of %s)", cmp.Or(s.Name, s.ID), leftOf(s), ttlOf(s))
	}
	return text
}

// Go says whether nothing speaks against it for good.
func Go(concerns []Concern) bool {
	return !slices.ContainsFunc(concerns, func(c Concern) bool { return c.NoGo })
}

// Rights notes in b which rights the caller lacks.
func (r *Rehearsal) Rights(ctx context.Context, b *Before) (err error) {
	if !b.Cell.Access {
		return nil
	}
	var who lockapi.WhoAmI // with the rights, for which the client does not ask
	for _, base := range r.URLs {
		if _, err = r.Asker.Get(ctx, base, lockapi.RouteWhoAmI+"?rights=true", &who); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("ask who may operate the cell: %w", err)
	}
	path := strings.TrimRight(r.Path, "/") + "/held"
	may, err := r.Client.Access().Check(ctx, path, "")
	if err != nil {
		return fmt.Errorf("ask who may lock %s: %w", path, err)
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
