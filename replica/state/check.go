package state

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stoutlock/stout/replica/state/access"
)

// Check returns the first invariant that the state breaks, or nil. It walks the
// whole state. Tests run it after every step, and Restore after reading.
//
//   - an exclusive holder is alone, and shared holders never exceed their limit
//   - every hold and every wait belongs to a live session
//   - a session and handle have at most one hold or wait on a path, and it is stored
//   - each queue has advanced as far as it can: no lock admits the head of its
//     queue; if the head is a set and heads all its queues, one of its locks
//     does not admit it
//   - a wait for several locks is in the queue of each
//   - all shared holders and shared waiters of a lock agree on the limit
//   - no token is given twice or exceeds the counter, no number exceeds the
//     sequence, and no queue position is younger than the state
//   - modes, limits and keys are such as Apply admits
//   - a free lock leaves no record
//   - a file's numbers lie within the cell's, and its owning session lives
//   - ids and secrets of tokens are unique, and rules, groups and quotas are
//     valid
//   - the counts of locks, files and bytes are right
//   - a session keeps at most MostLosses losses, in the order of their events
//   - answers belong to live sessions, at most MostAnswers to each
func (s *State) Check() error {
	locks, files, content := 0, 0, int64(0)
	for n := range s.nodes.All() {
		if !n.Free() || n.File == nil {
			locks++
			if err := s.checkLock(n); err != nil {
				return fmt.Errorf("lock %q: %w", n.Path, err)
			}
		}
		if n.File != nil {
			files++
			content += int64(len(n.File.Content))
			if err := s.checkFile(n); err != nil {
				return fmt.Errorf("file %q: %w", n.Path, err)
			}
		}
	}
	if locks != s.locks || files != s.files || content != s.content {
		return fmt.Errorf("counts %d locks and %d files of %d bytes; there are %d and %d of %d", s.locks, s.files, s.content, locks, files, content)
	}
	if n := s.measure(); n != s.bytes {
		return fmt.Errorf("counts %d bytes of memory; they are %d", s.bytes, n)
	}
	if err := s.checkOwned(); err != nil {
		return err
	}
	if n := s.holds.Len() + s.queue.Len(); n != s.handles.Len() {
		return fmt.Errorf("%d holds and waits but %d handles", n, s.handles.Len())
	}
	if err := s.checkTotals(); err != nil {
		return err
	}
	return s.checkAccess()
}

func (s *State) checkLock(l *Node) error {
	holders, waiters, shared := 0, 0, 0
	for h := range s.Holders(l.Path) {
		holders++
		if h.Mode == Shared {
			shared++
		}
		if err := s.checkHold(l, h); err != nil {
			return fmt.Errorf("hold %d: %w", h.Token, err)
		}
	}
	for w := range s.Queue(l.Path) {
		waiters++
		if w.Mode == Shared {
			shared++
		}
		if err := s.checkWait(l, w, waiters == 1); err != nil {
			return fmt.Errorf("wait %d: %w", w.Seq, err)
		}
	}
	switch {
	case holders != l.Holders || waiters != l.Waiters || shared != l.shared:
		return fmt.Errorf("counts %d holders, %d waiters, %d shared; there are %d, %d, %d",
			l.Holders, l.Waiters, l.shared, holders, waiters, shared)
	case holders == 0 && waiters == 0 && l.DelayID == 0:
		return fmt.Errorf("is free but has a record")
	case strings.IndexByte(l.Path, 0) >= 0:
		return fmt.Errorf("has a NUL in its path")
	case l.DelayMS < 0, (l.DelayID == 0) != (l.DelayMS == 0):
		return fmt.Errorf("has lock-delay number %d of %d ms", l.DelayID, l.DelayMS)
	case l.DelayID > s.Seq:
		return fmt.Errorf("has lock-delay number %d beyond the sequence %d", l.DelayID, s.Seq)
	}
	return nil
}

func (s *State) checkHold(l *Node, h *Hold) error {
	switch c, _ := s.handles.Get(h.HandleKey()); {
	case c != holdOrWait{hold: h}:
		return fmt.Errorf("session %q, handle %q has another hold or wait", h.Session, h.Handle)
	case !sound(h.Mode, h.Limit):
		return fmt.Errorf("has mode %d with limit %d", h.Mode, h.Limit)
	case h.Mode != l.Mode:
		return fmt.Errorf("is %v, the lock is held %v", h.Mode, l.Mode)
	case h.Mode == Exclusive && l.Holders > 1:
		return fmt.Errorf("is exclusive, with %d holders", l.Holders)
	case h.Mode == Shared && h.Limit != l.Limit:
		return fmt.Errorf("has limit %d, the lock %d", h.Limit, l.Limit)
	case h.Limit > 0 && int64(l.Holders) > h.Limit:
		return fmt.Errorf("has limit %d, with %d holders", h.Limit, l.Holders)
	case h.Token == 0 || h.Token > s.Counter:
		return fmt.Errorf("token is not within 1 and the counter %d", s.Counter)
	case h.Key != NoKey && (h.Key > KeyDeleted || h.Mode != Exclusive || h.Handle != ""):
		return fmt.Errorf("is marked %d as one of a key", h.Key)
	case h.WaitSeq > s.Seq || h.EventSeq > s.Seq:
		return fmt.Errorf("numbers %d, %d are beyond the sequence %d", h.WaitSeq, h.EventSeq, s.Seq)
	}
	return s.lives(h.Session)
}

func (s *State) checkWait(l *Node, w *Wait, head bool) error {
	if err := s.checkSet(w); err != nil { // admitsHead relies on it
		return err
	}
	switch c, _ := s.handles.Get(w.HandleKey()); {
	case c != holdOrWait{wait: w}:
		return fmt.Errorf("session %q, handle %q has another hold or wait", w.Session, w.Handle)
	case !sound(w.Mode, w.Limit):
		return fmt.Errorf("has mode %d with limit %d", w.Mode, w.Limit)
	case w.Mode == Shared && w.Limit != l.Limit:
		return fmt.Errorf("has limit %d, the lock %d", w.Limit, l.Limit)
	case head && s.admitsHead(l, w):
		return fmt.Errorf("is next and the lock admits it, but it still waits")
	case w.Seq == 0 || w.Seq > s.Seq:
		return fmt.Errorf("number is not within the sequence 1..%d", s.Seq)
	case w.Since > s.Now:
		return fmt.Errorf("was taken at %d, after the cell's time %d", w.Since, s.Now)
	}
	return s.lives(w.Session)
}

// checkSet returns what is wrong with the set of a wait, or nil.
func (s *State) checkSet(w *Wait) error {
	for _, path := range w.Set {
		_, part := s.HoldOrWait(w.Session, path, w.Handle)
		if part == nil || part.Seq != w.Seq || part.Mode != w.Mode || part.Limit != w.Limit || part.Priority != w.Priority ||
			part.Keep != w.Keep || !slices.Equal(part.Set, w.Set) {
			return fmt.Errorf("belongs to a set of waits, and the one for %q is missing or differs", path)
		}
	}
	if w.Set != nil && (len(w.Set) < 2 || len(w.Set) > MaxSet || !slices.Contains(w.Set, w.Path)) {
		return fmt.Errorf("belongs to a set of %d paths", len(w.Set))
	}
	return nil
}

func (s *State) lives(session string) error {
	if _, ok := s.Session(session); !ok {
		return fmt.Errorf("session %q does not exist", session)
	}
	return nil
}

func (s *State) checkTotals() error {
	holders, waiters := 0, 0
	for l := range s.Locks("", "") {
		holders += l.Holders
		waiters += l.Waiters
	}
	if holders != s.holds.Len() || waiters != s.queue.Len() {
		return fmt.Errorf("%d holds and %d waits, but the locks count %d and %d", s.holds.Len(), s.queue.Len(), holders, waiters)
	}
	owner := make(map[uint64]string, holders)
	for h := range s.Holds() {
		if other, twice := owner[h.Token]; twice {
			return fmt.Errorf("token %d is held on %q and on %q", h.Token, other, h.Path)
		}
		owner[h.Token] = h.Path
	}
	if err := s.checkSessions(); err != nil {
		return err
	}
	return s.checkHeader()
}

func (s *State) checkSessions() error {
	keyed := 0
	for v := range s.Sessions("") {
		if strings.IndexByte(v.ID, 0) >= 0 {
			return fmt.Errorf("session %q has a NUL in its id", v.ID)
		}
		if err := s.checkLosses(v); err != nil {
			return fmt.Errorf("session %q: %w", v.ID, err)
		}
		if v.Key == "" {
			continue
		}
		keyed++
		if other, _ := s.keys.Get(v.Key); other != v {
			return fmt.Errorf("session %q: its key belongs to another session", v.ID)
		}
	}
	if keyed != s.keys.Len() {
		return fmt.Errorf("%d idempotency keys, but %d sessions with one", s.keys.Len(), keyed)
	}
	return nil
}

func (s *State) checkLosses(v *Session) error {
	if len(v.Losses) > MostLosses {
		return fmt.Errorf("%d losses are more than %d", len(v.Losses), MostLosses)
	}
	last := uint64(0)
	for _, l := range v.Losses {
		if l == nil || l.EventSeq <= last || l.EventSeq > s.Seq || l.Token == 0 || l.Token > s.Counter || l.Reason < LostByForce || l.Reason > LostByTransaction {
			return errors.New("a loss is empty, out of order, or has a number that the cell has not reached")
		}
		last = l.EventSeq
	}
	return nil
}

func (s *State) checkHeader() error {
	switch {
	case s.Office.LeaseMS < 0 || s.Office.LeaseMS > MaxLeaseMS:
		return fmt.Errorf("office lease of %d ms is not within 0..%d", s.Office.LeaseMS, MaxLeaseMS)
	case s.Counter >= 1<<tokenBits || s.Revision >= 1<<tokenBits:
		return fmt.Errorf("token counter %d or revision %d is beyond %d bits", s.Counter, s.Revision, tokenBits)
	case s.Level < 1:
		return errors.New("has no level")
	}
	return nil
}

// Equal reports whether two states are the same, bit for bit.
func (s *State) Equal(other *State) bool {
	a, b := s.Hash(), other.Hash()
	return bytes.Equal(a[:], b[:])
}

func (s *State) checkFile(n *Node) error {
	f := n.File
	switch {
	case f.Path != n.Path:
		return fmt.Errorf("has the path %q in its own record", f.Path)
	case len(f.Content) > s.maxContent() || len(f.Sum) != sha256.Size || f.Size != len(f.Content):
		return fmt.Errorf("has %d bytes and a SHA-256 sum of %d bytes", len(f.Content), len(f.Sum))
	case f.Instance == 0 || f.Instance > f.Revision || f.Revision > s.Revision:
		return fmt.Errorf("instance %d, revision %d are not in order up to the cell's %d", f.Instance, f.Revision, s.Revision)
	case f.Generation == 0 || f.Generation-1 > f.Revision-f.Instance:
		return fmt.Errorf("has generation %d from revision %d to %d", f.Generation, f.Instance, f.Revision)
	case f.ModifiedAt > s.Now || f.CreatedAt > f.ModifiedAt:
		return fmt.Errorf("was made at %d and changed at %d; the cell's time is %d", f.CreatedAt, f.ModifiedAt, s.Now)
	case f.Session == "":
		return nil
	}
	if own, _ := s.ephemeral.Get(owned{f.Session, f.Path}); own != f {
		return fmt.Errorf("is missing from the files of session %q", f.Session)
	}
	return s.lives(f.Session)
}

// maxContent bounds the contents that files may have by now.
func (s *State) maxContent() int {
	if s.Level >= levelKeys {
		return MaxKeyValue
	}
	return MaxContent
}

func (s *State) checkOwned() error {
	ephemeral := 0
	for f := range s.Files("", "") {
		if f.Session != "" {
			ephemeral++
		}
	}
	if ephemeral != s.ephemeral.Len() {
		return fmt.Errorf("%d files end with a session, but the index has %d", ephemeral, s.ephemeral.Len())
	}
	for v := range s.answers.All() {
		if err := s.lives(v.session); err != nil {
			return fmt.Errorf("answers: %w", err)
		}
		if n := v.Len(); n == 0 || n > MostAnswers {
			return fmt.Errorf("session %q has %d answers", v.session, n)
		}
	}
	return nil
}

func (s *State) checkAccess() error {
	for t := range s.tokens.All() {
		if other, _ := s.tokenBySum(t.Sum); !t.sound() || other != t {
			return fmt.Errorf("token %q is malformed, or another one has its secret", t.ID)
		}
		if t.CreatedAt > s.Now {
			return fmt.Errorf("token %q was made at %d, after the cell's time %d", t.ID, t.CreatedAt, s.Now)
		}
	}
	if a, b := s.tokens.Len(), s.sums.Len(); a != b || a > MaxTokens {
		return fmt.Errorf("%d tokens, but %d secrets", a, b)
	}
	var size int64
	for r := range s.policy.Rules("", "") {
		if !r.Sound() {
			return fmt.Errorf("the rule at %q is malformed", r.Path)
		}
		size += r.Size()
	}
	for g := range s.policy.Groups("") {
		if !g.Sound() {
			return fmt.Errorf("group %q is malformed", g.Group)
		}
		size += g.Size()
	}
	for q := range s.policy.Quotas("") {
		if !q.Sound() {
			return fmt.Errorf("the quota of %q is malformed", q.Of)
		}
		size += q.Size()
	}
	if size != s.policy.Size() {
		return fmt.Errorf("counts %d bytes of rules, groups and quotas; they are %d", s.policy.Size(), size)
	}
	if cell := s.policy.Cell(); !cell.Sound() {
		return errors.New("the cell's lists of observers and operators are malformed")
	}
	if v := s.AccessOn || s.tokens.Len()+s.policy.RuleCount()+s.policy.GroupCount() > 0; v && s.Level < levelAccess {
		return fmt.Errorf("has rules, groups or tokens at level %d", s.Level)
	}
	if n := s.policy.QuotaCount(); n > access.MaxQuotas || n > 0 && s.Level < levelQuotas {
		return fmt.Errorf("has %d quotas at level %d", n, s.Level)
	}
	return nil
}
