package simcell

import (
	"errors"
	"slices"
	"strings"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// The judge checks answers about files against the log here.

// write is one call that writes files, all of them or none. Its content is
// unique, so that the log shows its effects, however often it was sent.
type write struct {
	who, content string
	paths        []string          // of a sequential file: the prefix of its number
	sequential   bool              // its paths are such prefixes
	session      string            // that it is for
	ephemeral    *bool             // as requested
	guards       []uint64          // tokens that must be held
	when         map[string]uint64 // required revisions of files; 0 = the file must not exist
	plea         *plea             // what it needs; nil if everyone may write

	done    map[string]uint64 // by path: the revision that it made
	index   uint64            // of its entry
	answers int               // number of answers of its session at that time
	refused string            // answered as without effect: why

	repeated bool // a copy of it arrives late
}

// names reports whether the write is for that file.
func (w *write) names(f *state.File) bool {
	if w.sequential {
		return slices.ContainsFunc(w.paths, func(prefix string) bool { return f.Path == prefix+digits(f.Revision) })
	}
	return slices.Contains(w.paths, f.Path)
}

// digits returns the number in the name of a sequential file.
func digits(revision uint64) string {
	s := ""
	for range lockapi.SequentialDigits {
		s, revision = string(rune('0'+revision%10))+s, revision/10
	}
	return s
}

// intends records a write that is about to be sent.
func (j *judge) intends(w *write) *write {
	w.done = map[string]uint64{}
	j.annals.writes[w.content] = w
	return w
}

// wroteFile checks the answer to a write that succeeded.
func (j *judge) wroteFile(w *write, stat *lockapi.FileStat) {
	j.look()
	j.w.stats.check("reported write")
	f := j.annals.at(stat.Path, stat.Revision).file
	if w.done[stat.Path] != stat.Revision || f == nil || statLine(f) != statLineOf(stat) {
		j.w.fail("%s got that its write %s made revision %d of %s (%s); the log has %v", w.who, w.content, stat.Revision, stat.Path, statLineOf(stat), w.done)
		return
	}
	j.told = max(j.told, w.index)
}

// notWritten checks the answer that a write had no effect and will have none.
func (j *judge) notWritten(w *write, why error) {
	j.look()
	j.w.stats.check("reported failure to write")
	if w.repeated {
		return
	}
	w.refused = why.Error()
	if w.index != 0 {
		j.w.fail("%s got %s for its write %s, which entry %d has done", w.who, why, w.content, w.index)
	}
}

// stoodFile checks the obstacle in a write's refusal: it must have existed at
// some moment since the call began.
func (j *judge) stoodFile(w *write, floor uint64, err error) {
	var e *lockapi.Error
	if !errors.As(err, &e) || w.index != 0 {
		return
	}
	j.look()
	switch {
	case e.Code == lockapi.CodeNotHeld:
		j.w.stats.check("reported guard")
		if !slices.ContainsFunc(w.guards, func(token uint64) bool { return j.tokens[token].freed != 0 }) {
			j.w.fail("%s got %v for its write %s; all of the tokens %d are held", w.who, e, w.content, w.guards)
		}
	case e.Code == lockapi.CodePrecondition && len(w.when) == 1:
		j.w.stats.check("reported condition")
		for path, revision := range w.when {
			var has uint64
			if e.Current != nil {
				has = e.Current.Revision
			}
			if has == revision || !j.annals.was(path, floor, has) {
				j.w.fail("%s got %v for its write %s; it was to happen at revision %d of %s, which was not at %d since entry %d",
					w.who, e, w.content, revision, path, has, floor)
			}
		}
	}
}

// was reports whether a file had a revision (0: it did not exist) at some
// moment after an entry.
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

// readAt checks the revision of a read that began when the effect of entry
// floor had been reported. It returns false if that is impossible. A stale
// read, with floor 0, may be ahead of what a master knows, so later reads need
// not see the same.
func (j *judge) readAt(who string, floor, revision uint64) bool {
	j.look()
	j.w.stats.check("read at a revision")
	switch least := j.before(floor).Revision; {
	case !j.annals.whole(revision):
		j.w.fail("%s read at revision %d, at which no replica ever stopped; the last is %d", who, revision, j.annals.revision())
	case revision < least:
		j.w.fail("%s read at revision %d; %d had been reported before its call", who, revision, least)
	default:
		if floor > 0 {
			j.told = max(j.told, j.annals.events[revision].index)
		}
		return true
	}
	return false
}

// before returns the state after an entry, or the last one before it.
func (j *judge) before(floor uint64) *state.State {
	for floor > 0 && j.history[floor] == nil {
		floor--
	}
	return j.history[floor]
}

// fileRead checks a read of a file; nil means that the file was not found.
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

// linesOf describes each file of a page.
func linesOf(page *lockapi.FileList) (lines []string) {
	for i := range page.Files {
		lines = append(lines, page.Files[i].Path+" "+statLineOf(&page.Files[i].FileStat))
	}
	return lines
}

// isPage reports whether a page has all lines, or the first ones if it is not
// the last page.
func isPage(page *lockapi.FileList, has, all []string) bool {
	if page.Next != "" {
		all = all[:min(len(has), len(all))]
	}
	return slices.Equal(has, all)
}

// filesRead checks a page of a list of the files below a prefix.
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

// listing returns what a list of the files below a prefix shows at a revision.
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

// judgedAt is fileRead for a read in a transaction, which may have been between
// two changes of one entry.
func (j *judge) judgedAt(who string, revision uint64, path string, got *lockapi.FileStat, content []byte) {
	j.look()
	j.w.stats.check("read in a transaction")
	if revision > j.annals.revision() {
		j.w.fail("%s gets a transaction at revision %d; the last is %d", who, revision, j.annals.revision())
		return
	}
	f := j.annals.at(path, revision).file
	if (f == nil) != (got == nil) || f != nil && (statLine(f) != statLineOf(got) || string(content) != string(f.Content)) {
		j.w.fail("%s read %s in a transaction at revision %d as %v %q; it was %v", who, path, revision, got, content, f)
	}
	j.told = max(j.told, j.annals.events[revision].index)
}
