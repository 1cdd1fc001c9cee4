package client

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
)

// fakeFiles are the files of a fakeCell and what happened to them. The cell's
// mutex guards them.
type fakeFiles struct {
	revision uint64
	files    map[string]*fakeFile
	tries    int                   // to change something
	answers  map[string]fakeAnswer // by key
	history  []lockapi.CellEvent
}

type fakeFile struct {
	lockapi.FileStat
	content []byte
}

type fakeAnswer struct {
	digest string
	status int
	body   any
}

func (f *fakeCell) fileCall(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire()
	path := strings.TrimPrefix(req.URL.Path, lockapi.RouteFiles)
	if req.Method == http.MethodGet {
		w.Header().Set(lockapi.HeaderRevision, strconv.FormatUint(f.files.revision, 10))
		f.readFiles(w, path, req)
		return
	}
	f.once(w, req, string(body), func() (int, any) {
		switch {
		case path == lockapi.RouteTransactions:
			return f.transact(body)
		case req.Method == http.MethodDelete && path == "":
			return f.deleteBelow(req.URL.Query().Get("prefix"))
		case req.Method == http.MethodDelete:
			return f.deleteFile(path, req)
		}
		return f.putFile(path, body, req)
	})
}

// once does what a request asks for, unless that was done under its key.
func (f *fakeCell) once(w http.ResponseWriter, req *http.Request, body string, do func() (int, any)) {
	f.files.tries++
	session, key := req.URL.Query().Get("session"), req.Header.Get(lockapi.HeaderIdempotencyKey)
	if session != "" && f.sessions[session] == nil {
		refuse(w, lockapi.Errorf(lockapi.CodeSessionNotFound, "no session %s", session))
		return
	}
	for _, sequencer := range req.URL.Query()["sequencer"] {
		if !f.holds(sequencer) {
			e := lockapi.Errorf(lockapi.CodeNotHeld, "%s is not held", sequencer)
			e.Sequencer = sequencer
			refuse(w, e)
			return
		}
	}
	digest := strings.Join([]string{req.Method, req.URL.Path, req.URL.RawQuery, req.Header.Get("If-Match"), req.Header.Get("If-None-Match"), body}, "\n")
	known, again := f.files.answers[key]
	if key == "" || !again {
		known = fakeAnswer{digest: digest}
		known.status, known.body = do()
		f.changed()
	}
	if key != "" {
		f.files.answers[key] = known
	}
	if known.digest != digest {
		known.status, known.body = 409, lockapi.Errorf(lockapi.CodeConflict, "the key is another call's")
	}
	if again {
		w.Header().Set(lockapi.HeaderReplayed, "true")
	}
	reply(w, known.status, known.body)
}

// holds says whether a sequencer's grant is held. f.mu is held.
func (f *fakeCell) holds(sequencer string) bool {
	parsed, err := lockapi.ParseSequencer(sequencer)
	l := f.locks[parsed.Path]
	return err == nil && l != nil && slices.ContainsFunc(l.holders, func(h *fakeHold) bool { return h.token == parsed.Token })
}

func (f *fakeCell) putFile(path string, content []byte, req *http.Request) (int, any) {
	now := f.files.files[path]
	switch match := req.Header.Get("If-Match"); {
	case match != "" && (now == nil || match != fmt.Sprintf(`"%d"`, now.Revision)),
		req.Header.Get("If-None-Match") == "*" && now != nil:
		return precondition(now, req.URL.Query().Get("content") == "true")
	}
	if req.Method == http.MethodPost {
		path += fmt.Sprintf("%0*d", lockapi.SequentialDigits, f.files.revision+1)
	}
	stat, created := f.write(path, content)
	query := req.URL.Query()
	switch query.Get("ephemeral") {
	case "true":
		stat.Session = query.Get("session")
	case "false":
		stat.Session = ""
	}
	f.tellFile(stat, created)
	if created {
		return 201, stat.FileStat
	}
	return 200, stat.FileStat
}

func precondition(now *fakeFile, whole bool) (int, any) {
	e := lockapi.Errorf(lockapi.CodePrecondition, "it is not so")
	if now != nil {
		e.Current = now.json(whole)
	}
	return 412, e
}

// write changes a file. f.mu is held.
func (f *fakeCell) write(path string, content []byte) (file *fakeFile, created bool) {
	f.files.revision++
	now, sum := time.Now().UTC(), sha256.Sum256(content)
	file = f.files.files[path]
	if created = file == nil; created {
		file = &fakeFile{FileStat: lockapi.FileStat{Path: path, Instance: f.files.revision, CreatedAt: now}}
		f.files.files[path] = file
	}
	file.Revision, file.Size, file.SHA256, file.ModifiedAt = f.files.revision, len(content), hex.EncodeToString(sum[:]), now
	file.Generation++
	file.content = content
	return file, created
}

func (f *fakeCell) tellFile(file *fakeFile, created bool) {
	e := lockapi.CellEvent{Revision: file.Revision, Type: lockapi.EventFileChanged, Path: file.Path, File: file.json(true)}
	if created {
		e.Type = lockapi.EventFileCreated
	}
	f.files.history = append(f.files.history, e)
}

func (f *fakeFile) json(content bool) *lockapi.File {
	out := &lockapi.File{FileStat: f.FileStat}
	switch {
	case !content:
	case utf8.Valid(f.content):
		text := string(f.content)
		out.Content = &text
	default:
		out.ContentBase64 = f.content
	}
	return out
}

func (f *fakeCell) deleteFile(path string, req *http.Request) (int, any) {
	now := f.files.files[path]
	if match := req.Header.Get("If-Match"); match != "" && (now == nil || match != fmt.Sprintf(`"%d"`, now.Revision)) {
		return precondition(now, false)
	}
	if now == nil {
		return 200, lockapi.FileDeleted{}
	}
	f.remove(path, lockapi.ReasonDeleted)
	return 200, lockapi.FileDeleted{Deleted: true, Revision: f.files.revision}
}

// remove deletes a file that is there. f.mu is held.
func (f *fakeCell) remove(path, reason string) {
	f.files.revision++
	e := lockapi.CellEvent{Revision: f.files.revision, Type: lockapi.EventFileDeleted, Path: path, Reason: reason, File: f.files.files[path].json(false)}
	e.File.Revision = e.Revision
	delete(f.files.files, path)
	f.files.history = append(f.files.history, e)
}

// endFiles ends the ephemeral files of a session. f.mu is held.
func (f *fakeCell) endFiles(session string) {
	for _, path := range slices.Sorted(maps.Keys(f.files.files)) {
		if f.files.files[path].Session == session {
			f.remove(path, lockapi.ReasonSessionEnded)
		}
	}
}

func (f *fakeCell) deleteBelow(dir string) (int, any) {
	var out lockapi.FilesDeleted
	n := 0
	for _, path := range slices.Sorted(maps.Keys(f.files.files)) {
		if strings.HasPrefix(path, dir) {
			f.remove(path, lockapi.ReasonDeleted)
			n++
		}
	}
	out.Deleted, out.Revision = n, f.files.revision
	return 200, out
}

func (f *fakeCell) readFiles(w http.ResponseWriter, path string, req *http.Request) {
	query := req.URL.Query()
	if path != "" {
		file := f.files.files[path]
		if file == nil {
			refuse(w, lockapi.Errorf(lockapi.CodeNotFound, "no file %s", path))
			return
		}
		reply(w, 200, file.json(true))
		return
	}
	out := lockapi.FileList{Files: []lockapi.File{}, Dirs: []string{}}
	prefix, last := query.Get("prefix"), ""
	for _, path := range slices.Sorted(maps.Keys(f.files.files)) {
		if !strings.HasPrefix(path, prefix) || path <= query.Get("after") || last != "" && strings.HasPrefix(path, last) {
			continue
		}
		if len(out.Files)+len(out.Dirs) == 2 { // small pages, so that the client has to turn them
			out.Next = out.Files[len(out.Files)-1].Path
			break
		}
		if deeper, _, ok := strings.Cut(path[len(prefix):], "/"); ok && query.Get("delimiter") == "/" {
			last = prefix + deeper + "/"
			out.Dirs = append(out.Dirs, last)
			continue
		}
		out.Files = append(out.Files, *f.files.files[path].json(query.Get("content") == "true"))
	}
	reply(w, 200, out)
}

// transact judges file revisions and does puts, deletions and gets. f.mu is
// held.
func (f *fakeCell) transact(body []byte) (int, any) {
	var in lockapi.Transaction
	if err := json.Unmarshal(body, &in); err != nil {
		panic(err)
	}
	out := lockapi.TransactionResult{Succeeded: true, Results: []lockapi.OperationResult{}}
	for _, c := range in.If {
		file := f.files.files[c.File]
		holds := c.Sequencer == "" || f.holds(c.Sequencer)
		holds = holds && (c.Revision == nil || file != nil && file.Revision == *c.Revision)
		out.Succeeded = out.Succeeded && holds && (c.Exists == nil || *c.Exists == (file != nil))
	}
	branch := in.Then
	if !out.Succeeded {
		branch = in.Else
	}
	for i, op := range branch {
		if op.Create != nil && f.files.files[op.Create.Path] != nil {
			_, e := precondition(f.files.files[op.Create.Path], false)
			e.(*lockapi.Error).Operation = &i
			return 412, e
		}
	}
	for _, op := range branch {
		out.Results = append(out.Results, f.operate(op))
	}
	out.Revision = f.files.revision
	return 200, out
}

func (f *fakeCell) operate(op lockapi.Operation) (out lockapi.OperationResult) {
	switch {
	case op.Put != nil:
		return f.operateWrite(op.Put.Path, op.Put)
	case op.Create != nil:
		return f.operateWrite(op.Create.Path, op.Create)
	case op.CreateSequential != nil:
		return f.operateWrite(op.CreateSequential.Path+fmt.Sprintf("%0*d", lockapi.SequentialDigits, f.files.revision+1), op.CreateSequential)
	case op.Get != nil:
		if file := f.files.files[op.Get.Path]; file != nil {
			out.File = file.json(true)
		}
	case op.Delete != nil:
		out.Deleted = &lockapi.FileDeleted{Deleted: f.files.files[op.Delete.Path] != nil}
		if out.Deleted.Deleted {
			f.remove(op.Delete.Path, lockapi.ReasonDeleted)
			out.Deleted.Revision = f.files.revision
		}
	case op.Release != nil:
		out.Released = new(lockapi.Released)
	case op.Acquire != nil:
		f.token++
		mode := op.Acquire.Mode
		if mode == "" {
			mode = lockapi.Exclusive
		}
		out.Grant = &lockapi.Grant{Path: op.Acquire.Path, State: lockapi.StateHeld, Handle: op.Acquire.Handle, Mode: mode, Token: f.token}
		out.Grant.Sequencer = lockapi.Sequencer{Mode: mode, Token: f.token, Path: op.Acquire.Path}.String()
	}
	return out
}

func (f *fakeCell) operateWrite(path string, op *lockapi.WriteOperation) (out lockapi.OperationResult) {
	content := []byte{}
	if op.Content != nil {
		content = []byte(*op.Content)
	}
	if op.ContentBase64 != nil {
		content = *op.ContentBase64
	}
	file, created := f.write(path, content)
	f.tellFile(file, created)
	out.File = file.json(false)
	return out
}
