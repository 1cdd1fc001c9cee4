package simcell

import (
	"errors"
	"slices"
	"strings"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// The oracle checks answers about files against the log here.

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
	guestCall    *guestCall        // what it needs; nil if everyone may write
	locks        string            // path of the key that it acquires for its session
	unlocks      string            // path of the key that it releases

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
func (o *oracle) intends(w *write) *write {
	w.done = map[string]uint64{}
	o.revisions.writes[w.content] = w
	return w
}

// wroteFile checks the answer to a write that succeeded.
func (o *oracle) wroteFile(w *write, stat *lockapi.FileStat) {
	o.checks("reported write")
	f := o.revisions.at(stat.Path, stat.Revision).file
	if w.done[stat.Path] != stat.Revision || f == nil || statLine(f) != statLineOf(stat) {
		o.w.fail("%s got that its write %s made revision %d of %s (%s); the log has %v", w.who, w.content, stat.Revision, stat.Path, statLineOf(stat), w.done)
		return
	}
	o.reported = max(o.reported, w.index)
}

// deletedFile checks the answer to a deletion of a file: that revision deleted
// it, or, if it is 0, the call did not.
func (o *oracle) deletedFile(who string, floor uint64, path string, revision uint64) {
	o.checks("reported deletion")
	if revision != 0 {
		o.deletedAt(who, floor, path, revision)
		return
	}
	o.absent(who, floor, path)
	o.revisions.notDeleted(path)
}

// absent checks the answer that a file is deleted or did not exist.
func (o *oracle) absent(who string, floor uint64, path string) {
	o.look()
	if !o.revisions.was(path, floor, 0) {
		o.w.fail("%s got that %s does not exist, which has existed since before the call (entry %d)", who, path, floor)
		return
	}
	o.since(floor, func(s *state.State) bool { _, there := s.File(path); return !there })
}

// deletedAt checks that a call deleted a file, or one below a directory, by that
// revision, after an entry.
func (o *oracle) deletedAt(who string, floor uint64, at string, revision uint64) {
	if revision <= o.revisions.revision() {
		e := &o.revisions.events[revision]
		called := e.kind == lockapi.EventFileDeleted && strings.HasSuffix(e.line, lockapi.ReasonDeleted)
		if called && e.index > floor && (e.path == at || strings.HasSuffix(at, "/") && strings.HasPrefix(e.path, at)) {
			o.reported = max(o.reported, e.index)
			return
		}
	}
	o.w.fail("%s got that its call deleted %s by revision %d, which is no such deletion after entry %d", who, at, revision, floor)
}

// deletedBelow checks the answer to a deletion of the n files below a directory:
// the last n revisions up to that one deleted them, and the directory had no
// others. With n = 0 it had no files at some moment since the call began.
func (o *oracle) deletedBelow(who string, floor uint64, dir string, n int, revision uint64) {
	o.checks("reported deletion of a directory")
	from, to := revision, min(revision, o.revisions.revision())
	if n == 0 {
		from, to = o.before(floor).Revision, o.revisions.revision()
	}
	for i := range uint64(n) {
		o.deletedAt(who, floor, dir, revision-i)
	}
	for r := from; r <= to; r++ {
		if len(o.revisions.listing(dir, r, func(string) bool { return true })) == 0 {
			o.reported = max(o.reported, o.revisions.events[r].index)
			return
		}
	}
	o.w.fail("%s got that its call deleted %d files below %s up to revision %d; there have been others since entry %d", who, n, dir, revision, floor)
}

// notWritten checks the answer that a write had no effect and will have none.
func (o *oracle) notWritten(w *write, why error) {
	o.checks("reported failure to write")
	if w.repeated {
		return
	}
	w.refused = why.Error()
	if w.index != 0 {
		o.w.fail("%s got %s for its write %s, which entry %d has done", w.who, why, w.content, w.index)
	}
}

// obstructedFile checks the obstacle in a write's refusal: it must have existed at
// some moment since the call began.
func (o *oracle) obstructedFile(w *write, floor uint64, err error) {
	var e *lockapi.Error
	if !errors.As(err, &e) || w.index != 0 {
		return
	}
	o.look()
	switch {
	case e.Code == lockapi.CodeNotHeld:
		o.w.stats.check("reported guard")
		if !slices.ContainsFunc(w.guards, func(token uint64) bool { return o.tokens[token].freed != 0 }) {
			o.w.fail("%s got %v for its write %s; all of the tokens %d are held", w.who, e, w.content, w.guards)
		}
	case e.Code == lockapi.CodePrecondition && len(w.when) == 1:
		o.w.stats.check("reported condition")
		for path, revision := range w.when {
			var has uint64
			if e.Current != nil {
				has = e.Current.Revision
			}
			if has == revision || !o.revisions.was(path, floor, has) {
				o.w.fail("%s got %v for its write %s; it was to happen at revision %d of %s, which was not at %d since entry %d",
					w.who, e, w.content, revision, path, has, floor)
			}
		}
	}
}

// was reports whether a file had a revision (0: it did not exist) at some
// moment after an entry.
func (y *revisions) was(path string, floor, revision uint64) bool {
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
func (o *oracle) readAt(who string, floor, revision uint64) bool {
	o.checks("read at a revision")
	switch least := o.before(floor).Revision; {
	case !o.revisions.whole(revision):
		o.w.fail("%s read at revision %d, at which no replica ever stopped; the last is %d", who, revision, o.revisions.revision())
	case revision < least:
		o.w.fail("%s read at revision %d; %d had been reported before its call", who, revision, least)
	default:
		if floor > 0 {
			o.reported = max(o.reported, o.revisions.events[revision].index)
		}
		return true
	}
	return false
}

// before returns the state after an entry, or the last one before it.
func (o *oracle) before(floor uint64) *state.State {
	for floor > 0 && o.history[floor] == nil {
		floor--
	}
	return o.history[floor]
}

// fileRead checks a read of a file; nil means that the file was not found.
func (o *oracle) fileRead(who string, floor, revision uint64, path string, got *lockapi.FileStat, content []byte) {
	if !o.readAt(who, floor, revision) {
		return
	}
	f := o.revisions.at(path, revision).file
	switch {
	case got == nil && f != nil:
		o.w.fail("%s found no file %s at revision %d; it was there with %s", who, path, revision, statLine(f))
	case got != nil && (f == nil || statLine(f) != statLineOf(got)):
		o.w.fail("%s read %s at revision %d with %s; the log has %v", who, path, revision, statLineOf(got), f)
	case got != nil && content != nil && string(content) != string(f.Content):
		o.w.fail("%s read %q in %s at revision %d; it had %q", who, content, path, revision, f.Content)
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
func (o *oracle) filesRead(who string, floor, revision uint64, prefix string, page *lockapi.FileList) {
	if !o.readAt(who, floor, revision) {
		return
	}
	want := o.revisions.listing(prefix, revision, func(string) bool { return true })
	has := linesOf(page)
	if !isPage(page, has, want) {
		o.w.fail("%s listed %q at revision %d: %q; there were %q", who, prefix, revision, has, want)
	}
}

// listing returns what a list of the files below a prefix shows at a revision.
func (y *revisions) listing(prefix string, revision uint64, shows func(path string) bool) (all []string) {
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

// transactionRead is fileRead for a read in a transaction, which may have been between
// two changes of one entry.
func (o *oracle) transactionRead(who string, revision uint64, path string, got *lockapi.FileStat, content []byte) {
	o.checks("read in a transaction")
	if revision > o.revisions.revision() {
		o.w.fail("%s gets a transaction at revision %d; the last is %d", who, revision, o.revisions.revision())
		return
	}
	f := o.revisions.at(path, revision).file
	if (f == nil) != (got == nil) || f != nil && (statLine(f) != statLineOf(got) || string(content) != string(f.Content)) {
		o.w.fail("%s read %s in a transaction at revision %d as %v %q; it was %v", who, path, revision, got, content, f)
	}
	o.reported = max(o.reported, o.revisions.events[revision].index)
}
