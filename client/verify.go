package client

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/stoutlock/stout/client/internal/bridge"
	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/lockapi"
)

// high is the highest number of a series that the client has seen of its cell;
// later numbers are higher. With Config.AnyCell the next cell's may be lower.
type high struct {
	n   atomic.Uint64
	any bool
}

// highest returns the number that later ones are above; 0 for any.
func (h *high) highest() uint64 {
	if h.any {
		return 0
	}
	return h.n.Load()
}

func (h *high) note(n uint64) {
	for known := h.n.Load(); n > known && !h.n.CompareAndSwap(known, n); known = h.n.Load() {
	}
}

// The functions below describe what is wrong with a successful answer to a
// call, or return "". They refuse an answer that does not match the request, is
// impossible, or would give the session a longer lease than requested. A proxy
// may mix up answers, and a program may answer that is not a replica of this
// cell.

func verifyOpened(q *call.Call) string {
	s := q.Out.(*lockapi.Session)
	switch {
	case !bridge.IsID(s.ID):
		return fmt.Sprintf("a session with the id %q", lockapi.Clip(s.ID))
	case s.TTLMS != q.Required.TTLMS:
		return fmt.Sprintf("a session with a ttl of %d ms; the call requested %d ms", s.TTLMS, q.Required.TTLMS)
	}
	return wrongEpoch(s.Epoch, 1)
}

func wrongEpoch(got, least uint64) string {
	switch {
	case got < least:
		return fmt.Sprintf("epoch %d; it was %d before, and only grows", got, least)
	case got > lockapi.MaxToken:
		return fmt.Sprintf("epoch %d, which is above %d", got, uint64(lockapi.MaxToken))
	}
	return ""
}

func verifyKeepalive(q *call.Call) string {
	return wrongLease(q.Out.(*lockapi.Keepalive), q.Required.Epoch)
}

// wrongLease describes what is wrong with a lease, given the epoch of the last
// one, or returns "".
func wrongLease(k *lockapi.Keepalive, epoch uint64) string {
	if k.TTLMS <= 0 {
		return fmt.Sprintf("a lease of %d ms", k.TTLMS)
	}
	return wrongEpoch(k.Epoch, max(epoch, 1))
}

func verifyState(q *call.Call) string {
	if s := q.Out.(*lockapi.SessionState); s.ID != q.Required.Session {
		return fmt.Sprintf("the state of session %q", lockapi.Clip(s.ID))
	}
	return ""
}

func verifyGrant(q *call.Call) string {
	g, want := q.Out.(*lockapi.Grant), &q.Required
	switch {
	case g.Path != want.Path:
		return fmt.Sprintf("a grant for %q", lockapi.Clip(g.Path))
	case g.Session != want.Session:
		return fmt.Sprintf("a grant for session %q", lockapi.Clip(g.Session))
	case g.Handle != want.Handle:
		return fmt.Sprintf("a grant for handle %q; the handle was %q", lockapi.Clip(g.Handle), want.Handle)
	case g.Mode != want.Mode:
		return fmt.Sprintf("a grant with mode %q; the call requested %q", lockapi.Clip(string(g.Mode)), want.Mode)
	case g.State == lockapi.StateQueued && want.Queue:
		return ""
	case g.State != lockapi.StateHeld:
		return fmt.Sprintf("the state %q", lockapi.Clip(g.State))
	case len(g.With) != len(want.With):
		return fmt.Sprintf("grants of %d locks; the call requested %d", 1+len(g.With), 1+len(want.With))
	}
	wrong := wrongToken(want, g.Mode, g.Path, g.Token, g.Sequencer)
	for i := range g.With {
		if part := &g.With[i]; part.Path != want.With[i] {
			return fmt.Sprintf("a grant for %q", lockapi.Clip(part.Path))
		} else if wrong == "" {
			wrong = wrongToken(want, g.Mode, part.Path, part.Token, part.Sequencer)
		}
	}
	return wrong
}

// wrongToken describes what is wrong with the token of a grant, or returns "".
func wrongToken(want *call.Required, mode lockapi.Mode, path string, token uint64, sequencer string) string {
	switch {
	case token == 0 || token > lockapi.MaxToken:
		return fmt.Sprintf("token %d; it is within 1..%d", token, uint64(lockapi.MaxToken))
	case token <= want.LastToken:
		return fmt.Sprintf("token %d, though %d was granted before; tokens only grow, so the state of the cell has gone back, or this is another cell", token, want.LastToken)
	case !describes(sequencer, mode, path, token):
		return fmt.Sprintf("sequencer %q with token %d", lockapi.Clip(sequencer), token)
	}
	return ""
}

// describes reports whether a sequencer matches a grant.
func describes(sequencer string, mode lockapi.Mode, path string, token uint64) bool {
	var digits [20]byte
	number := strconv.AppendUint(digits[:0], token, 10)
	rest, ok := strings.CutPrefix(sequencer, string(mode))
	if !ok || len(rest) != 2+len(number)+len(path) || rest[0] != ':' || rest[1+len(number)] != ':' {
		return false
	}
	return rest[1:1+len(number)] == string(number) && rest[2+len(number):] == path
}

func verifyLock(q *call.Call) string {
	l := q.Out.(*lockapi.Lock)
	switch {
	case l.Path != q.Required.Path:
		return fmt.Sprintf("the state of %q", lockapi.Clip(l.Path))
	case l.State != lockapi.StateFree && l.State != lockapi.StateHeld && l.State != lockapi.StateDelayed:
		return fmt.Sprintf("the state %q", lockapi.Clip(l.State))
	}
	return ""
}

// wrongDate describes what is wrong with the revision of a read, "" if it is
// right.
func wrongDate(asOf, since uint64) string {
	if asOf < since {
		return fmt.Sprintf("what was so at revision %d, though revision %d was seen before; they only grow, so the state of the cell has gone back, or this is another cell", asOf, since)
	}
	return ""
}

// wrongStat describes what is impossible in a file's stat, "" if it is right.
func wrongStat(s *lockapi.FileStat) string {
	switch {
	case s.Instance == 0 || s.Instance > s.Revision || s.Revision > lockapi.MaxToken:
		return fmt.Sprintf("a file of instance %d at revision %d", s.Instance, s.Revision)
	case s.Generation == 0 || (s.Generation == 1) != (s.Instance == s.Revision):
		return fmt.Sprintf("generation %d of instance %d at revision %d", s.Generation, s.Instance, s.Revision)
	}
	return ""
}

// wrongContent describes how content differs from its stat, "" if it matches.
func wrongContent(s *lockapi.FileStat, content []byte) string {
	if s.Size != len(content) {
		return fmt.Sprintf("a size of %d bytes; there are %d", s.Size, len(content))
	}
	if sum := sha256.Sum256(content); !isHex(s.SHA256, sum[:]) {
		return fmt.Sprintf("the SHA-256 %q, which is not that of the content", lockapi.Clip(s.SHA256))
	}
	return ""
}

// isHex reports whether text is b in hexadecimal.
func isHex(text string, b []byte) bool {
	var digits [2 * sha256.Size]byte
	return string(digits[:hex.Encode(digits[:], b)]) == text
}

func verifyFile(q *call.Call) string {
	a := q.Out.(*lockapi.File)
	if a.Path != q.Required.Path {
		return fmt.Sprintf("the file %q", lockapi.Clip(a.Path))
	}
	if wrong := wrongDate(q.AsOf, max(q.Required.Since, a.Revision)); wrong != "" {
		return wrong
	}
	if wrong := wrongStat(&a.FileStat); wrong != "" {
		return wrong
	}
	return wrongContent(&a.FileStat, a.Bytes())
}

func verifyWritten(q *call.Call) string {
	s, want := q.Out.(*lockapi.FileStat), &q.Required
	name := want.Path
	if want.Sequential {
		name += fmt.Sprintf("%0*d", lockapi.SequentialDigits, s.Revision)
	}
	switch {
	case s.Path != name:
		return fmt.Sprintf("the writing of %q at revision %d", lockapi.Clip(s.Path), s.Revision)
	case s.Revision <= want.Since:
		return fmt.Sprintf("revision %d, though revision %d was seen before; they only grow, so the state of the cell has gone back, or this is another cell", s.Revision, want.Since)
	case (want.Created || want.Sequential) && s.Generation != 1:
		return fmt.Sprintf("generation %d of a file that was to be created", s.Generation)
	}
	if wrong := wrongStat(s); wrong != "" {
		return wrong
	}
	return wrongContent(s, want.Content)
}

// verifyCurrent checks the whole file in a refusal.
func verifyCurrent(q *call.Call, f *lockapi.File) string {
	switch {
	case f.Path != q.Required.Path:
		return fmt.Sprintf("the file %q", lockapi.Clip(f.Path))
	case f.Content == nil && f.ContentBase64 == nil:
		return "a file without its content"
	}
	if wrong := wrongStat(&f.FileStat); wrong != "" {
		return wrong
	}
	return wrongContent(&f.FileStat, f.Bytes())
}

func verifyDeleted(q *call.Call) string {
	deleted, revision := false, uint64(0)
	switch out := q.Out.(type) {
	case *lockapi.FileDeleted:
		deleted, revision = out.Deleted, out.Revision
	case *deletedBelow:
		deleted, revision = out.Deleted != 0, out.Revision
		if out.Deleted < 0 || out.Deleted > lockapi.MaxFilesDeleted {
			return fmt.Sprintf("the deletion of %d files", out.Deleted)
		}
	}
	if deleted && (revision <= q.Required.Since || revision > lockapi.MaxToken) {
		return fmt.Sprintf("a deletion at revision %d, though revision %d was seen before", revision, q.Required.Since)
	}
	return ""
}

func verifyFileList(q *call.Call) string {
	a, want := q.Out.(*lockapi.FileList), &q.Required
	if a.Next != "" && a.Next <= want.After {
		return fmt.Sprintf("that the page after %q ends at %q, so the list makes no progress", lockapi.Clip(want.After), lockapi.Clip(a.Next))
	}
	last, newest := want.After, want.Since
	for i := range a.Files {
		f := &a.Files[i]
		if f.Path <= last || !strings.HasPrefix(f.Path, want.Path) {
			return fmt.Sprintf("file %q behind %q in a list of what begins with %q", lockapi.Clip(f.Path), lockapi.Clip(last), lockapi.Clip(want.Path))
		}
		if wrong := wrongStat(&f.FileStat); wrong != "" {
			return wrong
		}
		last, newest = f.Path, max(newest, f.Revision)
	}
	return wrongDate(q.AsOf, newest)
}
