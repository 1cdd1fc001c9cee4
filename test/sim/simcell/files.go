package simcell

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// These are a user's actions on files through the SDK.

// Files that all users write, files that transactions write together, and the
// place of sequential ones.
var (
	commonFiles = []string{"/f/a", "/f/b", "/one"}
	pairedFiles = []string{"/pair/a", "/pair/b"}
)

const (
	queueDir    = "/q/"
	queuePrefix = "/q/job-"
)

func (u *user) anyFile() string { return commonFiles[u.rng.IntN(len(commonFiles))] }

// newWrite returns a write with unique content.
func (u *user) newWrite(session string, paths ...string) *write {
	u.handles++
	return &write{who: u.name, content: fmt.Sprintf("%s-%d", u.name, u.handles), paths: paths, session: session, when: map[string]uint64{}}
}

// refusal returns the error in an answer, or nil for any other answer or none.
func refusal(err error) *lockapi.Error {
	var e *lockapi.Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// recordWrite records the answer to a write that was sent as one call.
func (u *user) recordWrite(floor uint64, w *write, err error, stats ...*lockapi.FileStat) {
	if err == nil {
		for _, s := range stats {
			u.w.oracle.wroteFile(w, s)
			u.known[s.Path] = s.Revision
		}
		return
	}
	if e := refusal(err); e != nil && (e.Code == lockapi.CodePrecondition || e.Code == lockapi.CodeNotHeld) {
		u.w.oracle.obstructedFile(w, floor, err)
		u.w.oracle.notWritten(w, err)
		if e.Current != nil {
			u.known[e.Current.Path] = e.Current.Revision
		}
	}
}

// writesFile writes a file, for its session or for none.
func (u *user) writesFile(ctx context.Context, s *client.Session) {
	path, floor := u.anyFile(), u.w.oracle.floor()
	calling, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var opts []client.WriteOption
	w := u.newWrite("", path)
	switch known := u.known[path]; u.rng.IntN(4) {
	case 0:
		w.when[path] = 0
		opts = append(opts, client.IfAbsent())
	case 1, 2:
		if known != 0 {
			w.when[path] = known
			opts = append(opts, client.IfRevision(known))
		}
	}
	put := u.client.Put
	if u.rng.IntN(3) > 0 {
		w.session, put = s.ID(), s.Put
		if n := u.rng.IntN(4); n < 2 {
			ephemeral := n == 0
			w.ephemeral = &ephemeral
			opts = append(opts, map[bool]client.WriteOption{true: client.Ephemeral(), false: client.Permanent()}[ephemeral])
		}
	}
	stat, err := put(calling, path, []byte(u.w.oracle.intends(w).content), opts...)
	u.recordWrite(floor, w, err, &stat)
	u.rests(ctx, err)
}

// rests pauses after a failed call, so that the program does not only retry.
func (u *user) rests(ctx context.Context, err error) {
	if err != nil {
		u.pace(ctx)
	}
}

// deletesFile deletes a file, or all files of the queue.
func (u *user) deletesFile(ctx context.Context, s *client.Session) {
	floor := u.w.oracle.floor()
	calling, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if u.rng.IntN(4) == 0 {
		u.w.oracle.revisions.asked[queueDir]++
		n, revision, err := s.DeleteBelow(calling, queueDir)
		if err == nil {
			u.w.oracle.deletedBelow(u.name, floor, queueDir, n, revision)
		}
		u.rests(ctx, err)
		return
	}
	path, remove := u.anyFile(), s.Delete
	u.w.oracle.revisions.asked[path]++
	if u.rng.IntN(2) == 0 {
		remove = u.client.Delete
	}
	revision, err := remove(calling, path)
	if err == nil {
		u.w.oracle.deletedFile(u.name, floor, path, revision)
	}
	u.rests(ctx, err)
}

// readsFile reads a file: linearizably, or as of the past at any replica.
func (u *user) readsFile(ctx context.Context) {
	if u.rng.IntN(2) == 0 {
		u.readsFileAt(ctx, u.anyone())
		return
	}
	path, floor := u.anyFile(), u.w.oracle.floor()
	calling, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var opts []client.ReadOption
	if u.rng.IntN(5) == 0 {
		floor, opts = 0, append(opts, client.Stale())
	}
	got, err := u.client.Get(calling, path, opts...)
	switch e := refusal(err); {
	case err == nil:
		u.w.oracle.fileRead(u.name, floor, got.AsOf, path, &got.FileStat, got.Content)
		u.known[path] = got.Revision
	case e != nil && e.Code == lockapi.CodeNotFound:
		u.w.oracle.fileRead(u.name, floor, e.Revision, path, nil, nil)
	default:
		u.pace(ctx)
	}
}

// readsFileAt reads a file at one replica.
func (u *user) readsFileAt(ctx context.Context, at string) {
	path, floor, header := u.anyFile(), u.w.oracle.floor(), http.Header{}
	var got lockapi.File
	m := u.message(http.MethodGet, lockapi.RouteFiles+path+"?as=json", nil, &got)
	m.reply = header
	switch err := u.send(ctx, 10*time.Second, at, m); {
	case err == nil:
		u.w.oracle.fileRead(u.name, floor, revisionIn(header), path, &got.FileStat, []byte(*got.Content))
	case errors.Is(err, lockapi.CodeNotFound):
		u.w.oracle.fileRead(u.name, floor, revisionIn(header), path, nil, nil)
	}
}

// listsFiles lists files at one replica.
func (u *user) listsFiles(ctx context.Context) {
	prefix, floor := pick(u.rng, "", "/f/", "/pair/", queueDir), u.w.oracle.floor()
	var got lockapi.FileList
	header := http.Header{}
	m := u.message(http.MethodGet, lockapi.RouteFiles+"?limit=1000&prefix="+prefix, nil, &got)
	m.reply = header
	if err := u.send(ctx, 10*time.Second, u.anyone(), m); err == nil {
		u.w.oracle.filesRead(u.name, floor, revisionIn(header), prefix, &got)
	}
}

// revisionIn returns the revision in a reply.
func revisionIn(h http.Header) uint64 {
	n, _ := strconv.ParseUint(h.Get(lockapi.HeaderRevision), 10, 64)
	return n
}

// queues creates a sequential file, or takes the first one.
func (u *user) queues(ctx context.Context, s *client.Session) {
	calling, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	floor := u.w.oracle.floor()
	if u.rng.IntN(2) == 0 {
		w := u.newWrite(s.ID(), queuePrefix)
		w.sequential = true
		w.paths = []string{queuePrefix}
		stat, err := s.CreateSequential(calling, queuePrefix, []byte(u.w.oracle.intends(w).content))
		u.recordWrite(floor, w, err, &stat)
		u.rests(ctx, err)
		return
	}
	for f, err := range u.client.List(calling, queueDir) {
		if err == nil {
			err = u.removesFile(calling, s, floor, &f)
		}
		u.rests(ctx, err)
		break
	}
}

// removesFile deletes a listed file if it has not changed since.
func (u *user) removesFile(ctx context.Context, s *client.Session, floor uint64, f *client.File) error {
	u.w.oracle.revisions.asked[f.Path]++
	revision, err := s.Delete(ctx, f.Path, client.IfRevision(f.Revision))
	switch {
	case err == nil:
		u.w.oracle.deletedFile(u.name, floor, f.Path, revision)
	case errors.Is(err, client.ErrPrecondition):
		unchanged := &write{who: u.name, content: "nothing", when: map[string]uint64{f.Path: f.Revision}}
		u.w.oracle.obstructedFile(unchanged, floor, err)
		u.w.oracle.revisions.notDeleted(f.Path)
	}
	return err
}

// whileHeld writes files under a hold, by the SDK and by bare calls, some of
// them late.
func (u *user) whileHeld(ctx context.Context, s *client.Session, h *client.Held) {
	w, floor := u.newWrite(s.ID(), u.anyFile()), u.w.oracle.floor()
	for _, q := range locksOf(h) {
		w.guards = append(w.guards, q.Token)
	}
	calling, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	stat, err := s.Put(calling, w.paths[0], []byte(u.w.oracle.intends(w).content), client.While(h))
	u.recordWrite(floor, w, err, &stat)
	for range u.rng.IntN(3) {
		go u.underSequencer(ctx, h)
	}
}

// underSequencer writes a file by one bare call guarded by a grant, whether or
// not that still exists.
func (u *user) underSequencer(ctx context.Context, h *client.Held) {
	u.wait(ctx, u.w.profile.hold)
	w := u.newWrite("", u.anyFile())
	w.guards = []uint64{h.Token()}
	route := lockapi.RouteFiles + w.paths[0] + "?sequencer=" + url.QueryEscape(h.Sequencer())
	if old := u.former; old != nil && u.rng.IntN(3) == 0 {
		w.guards = append(w.guards, old.Token())
		route += "&sequencer=" + url.QueryEscape(old.Sequencer())
	}
	u.former = h
	m := u.message("", route, nil, nil)
	u.putOnce(ctx, 10*time.Second, u.anyone(), w, m)
}

// putOnce writes a file by one call to a route of it.
func (u *user) putOnce(ctx context.Context, patience time.Duration, at string, w *write, m message) {
	floor := u.w.oracle.floor()
	var stat lockapi.FileStat
	m.method, m.out, m.raw = http.MethodPut, &stat, []byte(u.w.oracle.intends(w).content)
	err := u.send(ctx, patience, at, m)
	u.recordWrite(floor, w, err, &stat)
	if errors.Is(err, lockapi.CodeSessionNotFound) && w.session != "" {
		u.w.oracle.lost(u.name, w.session)
	}
	u.noEffect(w, err)
}

// noEffect records a refusal of a call that was sent once.
func (u *user) noEffect(w *write, err error) {
	if e := refusal(err); e != nil && e.Code != lockapi.CodeOutcomeUnknown && e.Code != lockapi.CodeInternal {
		u.w.oracle.notWritten(w, err)
	}
}
