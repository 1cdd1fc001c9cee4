package state_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stoutlock/stout/replica/state"
)

// Scenarios record the text forms below, and failing property tests print them. They
// omit fields that are zero.

func fields(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

func opt[V comparable](name string, v V) string {
	var zero V
	if v == zero {
		return ""
	}
	return fmt.Sprintf("%s=%v", name, v)
}

func word(name string, on bool) string {
	if on {
		return name
	}
	return ""
}

func pair(session, handle string) string {
	if handle == "" {
		return session
	}
	return session + ":" + handle
}

func holdText(h *state.Hold) string {
	return fields(h.Path, pair(h.Session, h.Handle), h.Mode.String(), opt("limit", h.Limit), opt("token", h.Token),
		opt("at", h.GrantedAt), opt("delay", h.DelayMS), opt("waited", h.WaitSeq), opt("event", h.EventSeq),
		[...]string{"", "key", "key-deleted"}[h.Key])
}

func waitText(w *state.Wait) string {
	return fields(w.Path, pair(w.Session, w.Handle), w.Mode.String(), opt("limit", w.Limit), opt("seq", w.Seq),
		opt("since", w.Since), opt("delay", w.DelayMS), opt("priority", w.Priority), word("keep", w.Keep), opt("set", strings.Join(w.Set, ",")))
}

func sessionText(s *state.Session) string {
	return fields(s.ID, opt("name", s.Name), opt("ttl", s.TTLMS), opt("at", s.CreatedAt), opt("key", s.Key),
		opt("digest", string(s.Digest)), metaText(s.Meta), opt("of", s.Principal), opt("r", s.Revision), lossesText(s.Losses))
}

func lossesText(all []*state.Loss) string {
	var text []string
	for _, l := range all {
		text = append(text, "lost:", lossText(l))
	}
	return strings.Join(text, " ")
}

func lossText(l *state.Loss) string {
	why := [...]string{"", "by-force", "by-undo", "by-transaction"}[l.Reason]
	return fields(pair(l.Path, l.Handle), opt("token", l.Token), why, opt("event", l.EventSeq))
}

func metaText(meta map[string]string) string {
	if len(meta) == 0 {
		return ""
	}
	return fmt.Sprintf("meta=%v", meta) // fmt sorts the keys
}

func lockText(l *state.Node) string {
	mode := "free"
	if l.Holders > 0 {
		mode = l.Mode.String()
	}
	return fields(l.Path, mode, opt("holders", l.Holders), opt("waiters", l.Waiters), opt("limit", l.Limit),
		opt("delay-seq", l.DelayID), opt("delay", l.DelayMS))
}

func clashText(c state.Mismatch) string {
	return [...]string{"", "over mode", "over limit", "over limit of others", "over set"}[c]
}

func resultText(r state.Result) string {
	switch r := r.(type) {
	case nil:
		return "refused"
	case state.Verdict:
		return r.String()
	case state.SessionResult:
		if r.Session == nil {
			return r.Verdict.String()
		}
		return fields(r.Verdict.String(), sessionText(r.Session))
	case state.TransactionResult:
		return transactionText(r)
	case state.KeysResult:
		return keysText(r)
	case state.TokenResult:
		if r.Token == nil {
			return r.Verdict.String()
		}
		return fields(r.Verdict.String(), tokenText(r.Token))
	case state.AcquireResult:
		var set state.SetResult
		if r.Set != nil {
			set = *r.Set
		}
		text, holds := fields(r.Verdict.String(), clashText(r.Mismatch), opt("at", set.Path)), set.Holds
		if holds == nil && r.Hold != nil {
			holds = []*state.Hold{r.Hold}
		}
		for _, h := range holds {
			text += " " + holdText(h)
		}
		if r.Wait != nil {
			text += " " + waitText(r.Wait)
		}
		return fields(text, opt("position", r.Position))
	}
	return fmt.Sprintf("a result of type %T", r)
}

func endingText(e state.Ending) string {
	return fields(opt("ended", e.At), opt("by", e.By), opt("silent", e.SilentMS))
}

func changeText(c state.Change) string {
	switch c := c.(type) {
	case state.OfficeOpened:
		return fields("office opened", opt("r", c.Revision), opt("epoch", c.Epoch), opt("master", c.Master), opt("at", c.At))
	case state.OfficeClosed:
		return "office closed"
	case state.SessionOpened:
		return "opened " + c.Session.ID
	case state.SessionEnded:
		return fields("ended", c.Session.ID, word("expired", c.Expired))
	case state.Granted:
		return fields("granted", opt("r", c.Revision), holdText(c.Hold), word("from the queue", c.Wait != nil))
	case state.Enqueued:
		return fields("enqueued", opt("r", c.Revision), waitText(c.Wait))
	case state.Kept:
		return "kept " + waitText(c.Wait)
	case state.Withdrawn:
		return "withdrawn " + waitText(c.Wait)
	case state.Released:
		return fields("released", opt("r", c.Revision), c.Reason.String(), holdText(c.Hold), endingText(c.Ending))
	case state.DelayBegan:
		return fields("delay", c.Path, opt("delay-seq", c.ID), opt("delay", c.MS))
	case state.DelayEnded:
		return fields("delay-over", c.Path, opt("delay-seq", c.ID))
	case state.Marked:
		return "marked"
	case state.SumReported:
		return fmt.Sprintf("sum entry=%d %x", c.Entry, c.Sum)
	case state.FileChanged:
		return "file " + fileText(c.File)
	case state.FileDeleted:
		return fields("file deleted", opt("r", c.Revision), c.Reason.String(), c.File.Path, endingText(c.Ending))
	case state.Answered:
		text := fields("answered", c.Session, c.Answer.Key)
		if c.Forgotten != nil {
			text += " instead of " + c.Forgotten.Key
		}
		return text
	case state.AccessChanged:
		return "access changed at " + c.Below
	case state.QuotaChanged:
		return "quota changed of " + c.Of
	case state.Expelled:
		return fields("expelled", waitText(c.Wait), opt("event", c.EventSeq))
	case state.HoldLost:
		return fields("lost", c.Session, lossText(c.Loss))
	case state.SessionAdopted:
		return fields("adopted", c.Session.ID, "by", c.Session.Principal)
	case state.LevelRaised:
		return fmt.Sprintf("level %d", c.Level)
	}
	return fmt.Sprintf("%T", c)
}

// dumpText returns the whole state as text, as far as readers can see it.
func dumpText(s *state.State) string {
	var b strings.Builder
	o := s.Office
	fmt.Fprintln(&b, fields("office", opt("epoch", s.Epoch), word("open", o.Open), opt("master", o.Master),
		opt("term", o.Term), opt("lease", o.LeaseMS)))
	for v := range s.Sessions("") {
		fmt.Fprintln(&b, "session", sessionText(v))
	}
	for _, m := range s.Members {
		fmt.Fprintln(&b, "member", fields(m.ID+"/"+m.Directory, opt("raft", m.RaftAddr), opt("url", m.URL), opt("at", m.Since), word("put", m.Put), word("stays", m.Stays)))
	}
	b.WriteString(accessText(s))
	for f := range s.Files("", "") {
		fmt.Fprintln(&b, "file", fileText(f))
	}
	for l := range s.Locks("", "") {
		fmt.Fprintln(&b, "lock", lockText(l))
		for h := range s.Holders(l.Path) {
			fmt.Fprintln(&b, "  holds", strings.TrimPrefix(holdText(h), l.Path+" "))
		}
		for w := range s.Queue(l.Path) {
			fmt.Fprintln(&b, "  waits", strings.TrimPrefix(waitText(w), l.Path+" "))
		}
	}
	return b.String()
}

func holdOrWaitText(s *state.State, h *state.Hold, w *state.Wait) string {
	switch {
	case h != nil && w != nil:
		return "both a hold and a wait"
	case h != nil:
		return "holds " + holdText(h)
	case w != nil:
		return fmt.Sprintf("waits %s position=%d", waitText(w), s.Position(w))
	}
	return "nothing"
}
