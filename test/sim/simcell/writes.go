package simcell

import (
	"errors"
	"slices"
	"strings"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// What callers were told of files is held against the story here.

// write is one call that writes files, all of them or none. Its content is its
// own, so that what it has done is seen in the log, however often it was sent.
type write struct {
	who, content string
	paths        []string          // for a sequential file what stands before its number
	sequential   bool              // its paths are such
	session      string            // on whose behalf
	ephemeral    *bool             // as it asks
	guards       []uint64          // tokens that have to be held
	when         map[string]uint64 // the revisions that files have to have; 0 = there is none
	plea         *plea             // what it takes; nil where everybody may

	done    map[string]uint64 // by path: the revision that it made
	index   uint64            // of the entry that did it
	answers int               // that its session had been given then
	refused string            // told that it had no effect: why

	repeated bool // a copy of it comes late
}

// names reports whether the write is of that file.
func (w *write) names(f *state.File) bool {
	if w.sequential {
		return slices.ContainsFunc(w.paths, func(prefix string) bool { return f.Path == prefix+digits(f.Revision) })
	}
	return slices.Contains(w.paths, f.Path)
}

// digits names a sequential file.
func digits(revision uint64) string {
	s := ""
	for range lockapi.SequentialDigits {
		s, revision = string(rune('0'+revision%10))+s, revision/10
	}
	return s
}

// intends notes a write that is about to be sent.
func (j *judge) intends(w *write) *write {
	w.done = map[string]uint64{}
	j.annals.writes[w.content] = w
	return w
}

// wrote: a caller was told of a file that it has written.
func (j *judge) wroteFile(w *write, stat *lockapi.FileStat) {
	j.look()
	j.w.stats.check("told of a write")
	f := j.annals.at(stat.Path, stat.Revision).file
	if w.done[stat.Path] != stat.Revision || f == nil || statLine(f) != statLineOf(stat) {
		j.w.fail("%s was told that its write %s made revision %d of %s (%s); the log has %v", w.who, w.content, stat.Revision, stat.Path, statLineOf(stat), w.done)
		return
	}
	j.told = max(j.told, w.index)
}

// notWritten: a caller was told that its write had no effect, nor will have.
func (j *judge) notWritten(w *write, why error) {
	j.look()
	j.w.stats.check("told of no write")
	if w.repeated {
		return
	}
	w.refused = why.Error()
	if w.index != 0 {
		j.w.fail("%s was told %s of its write %s, which entry %d has done", w.who, why, w.content, w.index)
	}
}

// stoodFile checks what a caller was told to stand in the way of its write: that
// was so at some moment since its call began.
func (j *judge) stoodFile(w *write, floor uint64, err error) {
	var e *lockapi.Error
	if !errors.As(err, &e) || w.index != 0 {
		return
	}
	j.look()
	switch {
	case e.Code == lockapi.CodeNotHeld:
		j.w.stats.check("told of a guard")
		if !slices.ContainsFunc(w.guards, func(token uint64) bool { return j.tokens[token].freed != 0 }) {
			j.w.fail("%s was told %v of its write %s; all of the tokens %d are held", w.who, e, w.content, w.guards)
		}
	case e.Code == lockapi.CodePrecondition && len(w.when) == 1:
		j.w.stats.check("told of a condition")
		for path, revision := range w.when {
			var has uint64
			if e.Current != nil {
				has = e.Current.Revision
			}
			if has == revision || !j.annals.was(path, floor, has) {
				j.w.fail("%s was told %v of its write %s; it was to be done at revision %d of %s, which was not at %d since entry %d",
					w.who, e, w.content, revision, path, has, floor)
			}
		}
	}
}

// was reports whether a file had a revision (0: there was none) at some moment
// after an entry.
func (y *annals) was(path string, floor, revision uint64) bool {
	all := append([]version{{}}, y.files[path]...)
	for i, v := range all {
		has := uint64(0)
		if v.file != nil {
			has = v.revision
		}
		if has == revision && (i == len(all)-1 || all[i+1].index > floor) {
			return true
		}
	}
	return false
}

// readAt: a caller was told how the cell was at a revision, by a read that began
// when the effect of entry floor had been told. It reports false where it can't
// have been so. A stale read, whose floor is 0, may be ahead of what a master knows:
// nobody else need see what it has seen.
func (j *judge) readAt(who string, floor, revision uint64) bool {
	j.look()
	j.w.stats.check("read at a revision")
	switch least := j.before(floor).Revision; {
	case !j.annals.whole(revision):
		j.w.fail("%s read at revision %d, which no replica has ever stopped at; the last is %d", who, revision, j.annals.revision())
	case revision < least:
		j.w.fail("%s read at revision %d; %d had been told of before its call", who, revision, least)
	default:
		if floor > 0 {
			j.told = max(j.told, j.annals.events[revision].index)
		}
		return true
	}
	return false
}

// before is the state after an entry, or the one before that.
func (j *judge) before(floor uint64) *state.State {
	for floor > 0 && j.history[floor] == nil {
		floor--
	}
	return j.history[floor]
}

// fileRead: a caller has read a file, nil where there is none.
func (j *judge) fileRead(who string, floor, revision uint64, path string, got *lockapi.FileStat, content []byte) {
	if !j.readAt(who, floor, revision) {
		return
	}
	f := j.annals.at(path, revision).file
	switch {
	case got == nil && f != nil:
		j.w.fail("%s found no file %s at revision %d; it was there with %s", who, path, revision, statLine(f))
	case got != nil && (f == nil || statLine(f) != statLineOf(got)):
		j.w.fail("%s read %s at revision %d with %s; the log has %v", who, path, revision, statLineOf(got), f)
	case got != nil && content != nil && string(content) != string(f.Content):
		j.w.fail("%s read %q in %s at revision %d; it had %q", who, content, path, revision, f.Content)
	}
}

// linesOf is a line for each file of a page.
func linesOf(page *lockapi.FileList) (lines []string) {
	for i := range page.Files {
		lines = append(lines, page.Files[i].Path+" "+statLineOf(&page.Files[i].FileStat))
	}
	return lines
}

// isPage reports whether lines are those of all there is, or of the first of it where
// the page is not the last one.
func isPage(page *lockapi.FileList, has, all []string) bool {
	if page.Next != "" {
		all = all[:min(len(has), len(all))]
	}
	return slices.Equal(has, all)
}

// filesRead: a caller has listed the files below a prefix, of which it saw a page.
func (j *judge) filesRead(who string, floor, revision uint64, prefix string, page *lockapi.FileList) {
	if !j.readAt(who, floor, revision) {
		return
	}
	want := j.annals.listing(prefix, revision, func(string) bool { return true })
	has := linesOf(page)
	if !isPage(page, has, want) {
		j.w.fail("%s listed %q at revision %d: %q; there were %q", who, prefix, revision, has, want)
	}
}

// listing is what a list of the files below a prefix shows at a revision.
func (y *annals) listing(prefix string, revision uint64, shows func(path string) bool) (all []string) {
	for path := range y.files {
		if f := y.at(path, revision).file; f != nil && strings.HasPrefix(path, prefix) && shows(path) {
			all = append(all, path+" "+statLine(f))
		}
	}
	slices.Sort(all)
	return all
}

func statLine(f *state.File) string {
	return digits(f.Revision) + " " + lineOfFile(f.Instance, f.Generation, len(f.Content), f.Session, "")
}

func statLineOf(s *lockapi.FileStat) string {
	return digits(s.Revision) + " " + lineOfFile(s.Instance, s.Generation, s.Size, s.Session, "")
}

// judgedAt is fileRead for what a transaction has read, which may have been
// between two changes of one entry.
func (j *judge) judgedAt(who string, revision uint64, path string, got *lockapi.FileStat, content []byte) {
	j.look()
	j.w.stats.check("read in a transaction")
	if revision > j.annals.revision() {
		j.w.fail("%s is told of a transaction at revision %d; the last is %d", who, revision, j.annals.revision())
		return
	}
	f := j.annals.at(path, revision).file
	if (f == nil) != (got == nil) || f != nil && (statLine(f) != statLineOf(got) || string(content) != string(f.Content)) {
		j.w.fail("%s read %s in a transaction at revision %d as %v %q; it was %v", who, path, revision, got, content, f)
	}
	j.told = max(j.told, j.annals.events[revision].index)
}
