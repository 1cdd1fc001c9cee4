package client

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/lockapi"
)

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
