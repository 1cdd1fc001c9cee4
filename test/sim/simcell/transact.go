package simcell

import (
	"context"
	"errors"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// beside is a file that transactions depend on and others write.
var beside = commonFiles[1]

// transacts writes two files in one transaction if one of them, and perhaps a
// third one, has the revision that the user knows; otherwise it reads all.
func (u *user) transacts(ctx context.Context, s *client.Session) {
	a, b := pairedFiles[0], pairedFiles[1]
	w, floor := u.newWrite("", a, b), u.w.oracle.floor()
	t := u.client.Txn()
	if u.rng.IntN(3) > 0 {
		w.session, t = s.ID(), s.Txn()
	}
	known, absent := u.known[a], u.known[a] == 0 || u.rng.IntN(8) == 0
	if absent {
		known = 0
		t.If(client.WhenAbsent(a))
	} else {
		t.If(client.WhenRevision(a, known))
	}
	w.when[a] = known
	if revision := u.known[beside]; revision != 0 && u.rng.IntN(2) == 0 {
		t.If(client.WhenRevision(beside, revision))
		w.when[beside] = revision
	}
	content := []byte(u.w.oracle.intends(w).content)
	t.Then(client.OpPut(a, content), client.OpPut(b, content), client.OpGet(b))
	if u.rng.IntN(3) == 0 { // a failure here undoes the earlier operations
		w.when[commonFiles[0]] = 0
		t.Then(client.OpCreate(commonFiles[0], content))
		w.paths = append(w.paths, commonFiles[0])
	}
	t.Else(client.OpGet(a), client.OpGet(b), client.OpGet(beside))
	calling, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := t.Commit(calling)
	switch {
	case err != nil:
		u.recordWrite(floor, w, err)
	case out.Succeeded:
		u.recordWrite(floor, w, nil, &out.Results[0].File.FileStat, &out.Results[1].File.FileStat)
		if got := out.Results[2].File; got == nil || *got.Content != w.content {
			u.w.fail("%s wrote %q to %s in a transaction, but read %v there", u.name, w.content, b, got)
		}
	default:
		u.transactedElse(w, &out)
	}
	u.rests(ctx, err)
}

// writesEither writes one file if it has the revision that the user knows, and
// otherwise another one.
func (u *user) writesEither(ctx context.Context, s *client.Session) {
	path, floor := commonFiles[0], u.w.oracle.floor()
	w, other := u.newWrite(s.ID(), path), u.newWrite(s.ID(), beside)
	w.when[path] = u.known[path]
	t := s.Txn().If(client.WhenRevision(path, u.known[path]))
	if u.known[path] == 0 {
		t = s.Txn().If(client.WhenAbsent(path))
	}
	t.Then(client.OpPut(path, []byte(u.w.oracle.intends(w).content))).Else(client.OpPut(beside, []byte(u.w.oracle.intends(other).content)))
	calling, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := t.Commit(calling)
	switch {
	case err != nil:
	case out.Succeeded:
		u.recordWrite(floor, w, nil, &out.Results[0].File.FileStat)
		u.w.oracle.notWritten(other, errors.New("its condition holds"))
	default:
		u.recordWrite(floor, other, nil, &out.Results[0].File.FileStat)
		u.w.oracle.notWritten(w, errors.New("its condition does not hold"))
		delete(u.known, path)
	}
	u.rests(ctx, err)
}

// transactedElse checks that the conditions did not hold at the answer's
// revision, and that the files were as read.
func (u *user) transactedElse(w *write, out *lockapi.TransactionResult) {
	u.w.oracle.notWritten(w, errors.New("its condition does not hold"))
	for i, path := range append(pairedFiles[:2:2], beside) {
		var stat *lockapi.FileStat
		var content []byte
		delete(u.known, path)
		if f := out.Results[i].File; f != nil {
			stat, content = &f.FileStat, []byte(*f.Content)
			u.known[path] = stat.Revision
		}
		u.w.oracle.transactionRead(u.name, out.Revision, path, stat, content)
	}
	for path, revision := range w.when {
		if path != commonFiles[0] && u.known[path] != revision {
			return
		}
	}
	u.w.fail("%s: one of the conditions %v did not hold at revision %d, but the files match all of them", u.name, w.when, out.Revision)
}
