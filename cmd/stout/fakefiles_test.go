//go:build unix

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// fakeFiles are the files of the fake cell, whose first revision was the coming
// of its master. It tells events by calls that wait.
type fakeFiles struct {
	revision uint64
	files    map[string]*lockapi.File
	history  []lockapi.CellEvent
}

func (c *fakeCell) putFile(r *http.Request) (any, error) {
	path, query := "/"+r.PathValue("path"), r.URL.Query()
	if id := query.Get("session"); id != "" && c.sessions[id] == nil {
		return nil, lockapi.Errorf(lockapi.CodeSessionNotFound, "no session %s", id)
	}
	now := c.files.files[path]
	if err := unlessSo(r, now); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	c.files.revision++
	text, sum := string(body), sha256.Sum256(body)
	file := &lockapi.File{Content: &text, FileStat: lockapi.FileStat{
		Path: path, Revision: c.files.revision, Instance: c.files.revision, Generation: 1, Size: len(body), SHA256: hex.EncodeToString(sum[:]),
		CreatedAt: time.Now().UTC(), ModifiedAt: time.Now().UTC(),
	}}
	kind := lockapi.EventFileCreated
	if now != nil {
		kind, file.Instance, file.Generation = lockapi.EventFileChanged, now.Instance, now.Generation+1
	}
	if query.Get("ephemeral") == "true" {
		file.Session = query.Get("session")
	}
	c.files.files[path] = file
	c.tell(lockapi.CellEvent{Revision: file.Revision, Type: kind, Path: path, File: file})
	return file.FileStat, nil
}

// unlessSo refuses a call whose If headers want another file than there is.
func unlessSo(r *http.Request, now *lockapi.File) error {
	match := r.Header.Get("If-Match")
	if (r.Header.Get("If-None-Match") == "" || now == nil) && (match == "" || now != nil && match == fmt.Sprintf(`"%d"`, now.Revision)) {
		return nil
	}
	e := lockapi.Errorf(lockapi.CodePrecondition, "the file is not so")
	if now != nil {
		e.Current = &lockapi.File{FileStat: now.FileStat}
	}
	return e
}

// tell adds an event.
func (c *fakeCell) tell(e lockapi.CellEvent) {
	c.files.history = append(c.files.history, e)
	c.change()
}

func (c *fakeCell) getFile(r *http.Request) (any, error) {
	path := "/" + r.PathValue("path")
	if file := c.files.files[path]; file != nil {
		return file, nil
	}
	return nil, lockapi.Errorf(lockapi.CodeNotFound, "there is no file %s", path)
}

func (c *fakeCell) removeFile(path, reason string) bool {
	if c.files.files[path] == nil {
		return false
	}
	delete(c.files.files, path)
	c.files.revision++
	c.tell(lockapi.CellEvent{Revision: c.files.revision, Type: lockapi.EventFileDeleted, Path: path, Reason: reason})
	return true
}

// endFiles ends the ephemeral files of a session.
func (c *fakeCell) endFiles(session string) {
	for _, path := range slices.Sorted(maps.Keys(c.files.files)) {
		if c.files.files[path].Session == session {
			c.removeFile(path, lockapi.ReasonSessionEnded)
		}
	}
}

func (c *fakeCell) deleteFile(r *http.Request) (any, error) {
	path := "/" + r.PathValue("path")
	if err := unlessSo(r, c.files.files[path]); err != nil {
		return nil, err
	}
	deleted := c.removeFile(path, lockapi.ReasonDeleted)
	out := lockapi.FileDeleted{Deleted: deleted}
	if deleted {
		out.Revision = c.files.revision
	}
	return out, nil
}

func (c *fakeCell) deleteFiles(r *http.Request) (any, error) {
	n := 0
	for _, path := range slices.Sorted(maps.Keys(c.files.files)) {
		if strings.HasPrefix(path, r.URL.Query().Get("prefix")) && c.removeFile(path, lockapi.ReasonDeleted) {
			n++
		}
	}
	return lockapi.FilesDeleted{Deleted: n, Revision: c.files.revision}, nil
}

func (c *fakeCell) getFiles(r *http.Request) (any, error) {
	query := r.URL.Query()
	prefix := query.Get("prefix")
	out := lockapi.FileList{Files: []lockapi.File{}, Dirs: []string{}}
	for _, path := range slices.Sorted(maps.Keys(c.files.files)) {
		if !strings.HasPrefix(path, prefix) || path <= query.Get("after") {
			continue
		}
		if name, _, deeper := strings.Cut(path[len(prefix):], "/"); deeper && query.Get("delimiter") != "" {
			if dir := prefix + name + "/"; !slices.Contains(out.Dirs, dir) {
				out.Dirs = append(out.Dirs, dir)
			}
			continue
		}
		out.Files = append(out.Files, lockapi.File{FileStat: c.files.files[path].FileStat})
	}
	return out, nil
}

func (c *fakeCell) getEvents(r *http.Request) (any, error) {
	query := r.URL.Query()
	wait, _ := strconv.Atoi(query.Get("wait_ms"))
	patience := time.Duration(wait) * time.Millisecond
	deadline, over := time.Now().Add(patience), time.After(patience)
	after, err := strconv.ParseUint(query.Get("after"), 10, 64)
	if err != nil {
		after = c.files.revision
	}
	for ended := false; ; {
		out := lockapi.EventList{Events: []lockapi.CellEvent{}, Revision: max(after, c.files.revision)}
		for _, e := range c.files.history {
			named := slices.Contains(query["path"], e.Path) || slices.ContainsFunc(query["prefix"], func(p string) bool { return strings.HasPrefix(e.Path, p) })
			typed := !query.Has("types") || slices.Contains(strings.Split(query.Get("types"), ","), string(e.Type))
			if e.Revision > after && typed && (named || !query.Has("path") && !query.Has("prefix")) {
				out.Events = append(out.Events, e)
			}
		}
		if len(out.Events) > 0 || ended || wait == 0 {
			return out, nil
		}
		if c.wait(r, over) != nil {
			return nil, lockapi.Errorf(lockapi.CodeNoMaster, "the caller has gone")
		}
		ended = !time.Now().Before(deadline)
	}
}
