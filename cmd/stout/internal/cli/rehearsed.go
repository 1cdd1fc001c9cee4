package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stoutlock/stout/cmd/stout/internal/rehearse"
)

// showRehearsal shows what came of a rehearsal, the verdict first.
func (a *app) showRehearsal(r rehearse.Report) {
	p := a.ui.out
	verdict := map[string]string{
		rehearse.Passed: p.good.Render("passed"), rehearse.Look: p.warn.Render("look at it"), rehearse.Failed: p.fail.Render("failed"),
	}[r.Verdict]
	lines := [][2]string{
		{"verdict", verdict},
		{"master", fmt.Sprintf("%s in epoch %d, before %s in %d", clean(r.After.Master), r.After.Epoch, clean(r.Before.Master), r.Before.Epoch)},
		{"writes", serviceText(r.Writes)},
		{"reads", serviceText(r.Reads)},
		{"by the sdk", fmt.Sprintf("%s, %d failed; the slowest took %s", plural(r.Own.Calls, "call"), r.Own.Failed, msText(r.Own.Slowest))},
		{"sessions", sessionsText(r)},
		{"holds", holdsText(r.Holds)},
		{"waiters", waitersText(r.Waiters)},
		{"of its own", ownText(r.Own)},
	}
	for _, l := range lines {
		a.ui.block(p.dim.Render(fmt.Sprintf("%-10s", l[0]))+"  ", fmt.Sprintf("%12s", ""), l[1])
	}
	for _, why := range r.Why {
		a.ui.printf("\n")
		a.ui.prose(safe(why) + ".")
	}
	a.showNear("NEAREST TO ITS END", r.Nearest)
	a.showNear("EXPIRED", r.Expired)
	for _, w := range r.Waiters.Overtaken {
		a.ui.note("overtaken: %s", w)
	}
}

// showNear shows sessions, and what they had left when service was back.
func (a *app) showNear(title string, all []rehearse.Near) {
	if len(all) == 0 {
		return
	}
	rows := make([][]string, 0, len(all))
	for _, n := range all {
		rows = append(rows, []string{clean(n.Session), clean(n.Name), millis(n.TTLMS), millis(n.LeftMS)})
	}
	a.ui.printf("\n")
	a.ui.table([]column{left(title), left("NAME"), right("TTL"), right("LEFT")}, rows)
}

// serviceText is about the time without service.
func serviceText(s rehearse.Service) string {
	text := fmt.Sprintf("none for %s, usually %s", msText(s.GapMS), msText(s.UsualMS))
	if s.LaterMS > max(s.GapMS, s.UsualMS) {
		text += fmt.Sprintf(", under the new master once for %s", msText(s.LaterMS))
	}
	text += fmt.Sprintf("; %d of %d calls failed", s.Failed, s.Attempts)
	if len(s.By) == 0 {
		return text
	}
	var by []string
	for _, code := range slices.Sorted(maps.Keys(s.By)) {
		by = append(by, fmt.Sprintf("%s %d", clean(code), s.By[code]))
	}
	return text + " (" + strings.Join(by, ", ") + ")"
}

func msText(ms float64) string {
	if ms < 1000 {
		return fmt.Sprintf("%.0fms", ms)
	}
	return fmt.Sprintf("%.2fs", ms/1000)
}

func sessionsText(r rehearse.Report) string {
	if r.Seen == 0 {
		return "none but its own"
	}
	lived := r.Seen - len(r.Expired) - r.Closed
	text := fmt.Sprintf("%d of %d live, %d expired, %d closed meanwhile", lived, r.Seen, len(r.Expired), r.Closed)
	if lived > 0 {
		text += fmt.Sprintf("; at least %.0f%% of the ttl was left, half had %.0f%%", 100*r.LeastShare, 100*r.HalfShare)
	}
	return text
}

func holdsText(f rehearse.Fates) string {
	if f.Seen == 0 {
		return "none but its own"
	}
	return fmt.Sprintf("%d of %d kept, %d given back, %d gone with their sessions", f.Kept, f.Seen, f.Given, f.Lost)
}

func waitersText(f rehearse.Fates) string {
	if f.Seen == 0 {
		return "none but its own"
	}
	return fmt.Sprintf("%d of %d kept their places, %d got the lock, %d gave up, %d gone with their sessions, %d overtaken",
		f.Kept, f.Seen, f.Granted, f.Given, f.Lost, len(f.Overtaken))
}

func ownText(o rehearse.Own) string {
	state := "safe all the time"
	switch {
	case o.Expired:
		state = "expired"
	case o.Jeopardy:
		state = "in jeopardy for a while"
	}
	lock := "kept"
	if !o.LockKept {
		lock = "lost"
	}
	return fmt.Sprintf("sessions %s, lock %s, %d of %d waiters in their places", state, lock, o.InOrder, o.Waiters)
}
