package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// parseFileRequest parses a request about files. ok is false if the request is
// not one that is recorded.
func (a *Attempt) parseFileRequest(req *http.Request) (ok bool, err error) {
	path, isFile := strings.CutPrefix(req.URL.Path, lockapi.RouteFiles)
	isFile = isFile && strings.HasPrefix(path, "/")
	q, c := req.URL.Query(), &FileCall{}
	below := q.Get("prefix")
	isBelow := req.URL.Path == lockapi.RouteFiles && strings.HasSuffix(below, "/") && !q.Has("after") && !q.Has("delimiter")
	content := ""
	write := &lockapi.WriteOperation{Path: path, Content: &content}
	var op lockapi.Operation
	switch {
	case req.URL.Path == lockapi.RouteTransactions && req.Method == http.MethodPost:
		a.Kind, a.Files = Transact, c
		a.Key = req.Header.Get(lockapi.HeaderIdempotencyKey)
		body, err := bodyOf(req)
		if err == nil {
			err = json.Unmarshal(body, &c.Transaction)
		}
		a.Session = c.Session
		if nodes := c.nodes(); len(nodes) > 0 {
			a.Path = nodes[0]
		}
		return true, err
	case isFile && req.Method == http.MethodPut:
		a.Kind, op.Put = Write, write
	case isFile && req.Method == http.MethodPost:
		a.Kind, op.CreateSequential = Write, write
	case isFile && req.Method == http.MethodDelete:
		a.Kind, op.Delete = Delete, &lockapi.FileOperation{Path: path}
	case isFile && req.Method == http.MethodGet:
		a.Kind, op.Get = Get, &lockapi.FileOperation{Path: path}
	case isBelow && req.Method == http.MethodGet:
		a.Kind, path, c.Below = List, below, below
	case isBelow && req.Method == http.MethodDelete:
		a.Kind, path, c.Below = DeleteBelow, below, below
	default:
		return false, nil
	}
	a.Path, a.Session, a.Key, a.Files = path, q.Get("session"), req.Header.Get(lockapi.HeaderIdempotencyKey), c
	c.Guards = q["sequencer"]
	if tag := strings.Trim(req.Header.Get("If-Match"), `"`); tag != "" {
		if c.Match, err = strconv.ParseUint(tag, 10, 64); err != nil {
			return true, err
		}
	}
	c.Absent = a.Kind == Write && req.Header.Get("If-None-Match") == "*"
	if a.Kind == Write {
		body, err := bodyOf(req)
		if err != nil {
			return true, err
		}
		content = string(body)
		if q.Has("ephemeral") {
			ephemeral := q.Get("ephemeral") == "true"
			write.Ephemeral = &ephemeral
		}
	}
	if c.Below == "" {
		c.Then = []lockapi.Operation{op}
	}
	return true, nil
}

// bodyOf reads a request's body and restores it.
func bodyOf(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body.Close()
	req.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// parseFileProblem records why a call about files failed. A read that finds no
// file counts as done.
func (a *Attempt) parseFileProblem(resp *http.Response, e *lockapi.Error) error {
	c := a.Files
	switch {
	case a.Kind == Get && e.Code == lockapi.CodeNotFound:
		return a.parseGot(resp, nil)
	case a.Kind != Get && e.Code == lockapi.CodePrecondition:
		a.Outcome, c.Current = Refused, e.Current
		if e.Operation != nil {
			c.Operation = *e.Operation
		}
		for _, h := range e.Holders {
			a.Detail += fmt.Sprintf("; held by %s", pair(h.Session, h.Handle))
		}
	case len(c.Guards) > 0 && e.Code == lockapi.CodeNotHeld:
		a.Outcome = NotHeld
	default:
		return errors.New("unexpected refusal")
	}
	return nil
}

// parseFileSuccess records the result of a call about files.
func (a *Attempt) parseFileSuccess(resp *http.Response, body []byte) error {
	c := a.Files
	a.Outcome = Done
	switch a.Kind {
	case Get:
		f, err := fileRead(a.Path, resp, body)
		if err != nil {
			return err
		}
		return a.parseGot(resp, f)
	case Write:
		f := &lockapi.File{}
		if err := json.Unmarshal(body, f); err != nil {
			return err
		}
		c.Result = &lockapi.TransactionResult{Succeeded: true, Revision: f.Revision, Results: []lockapi.OperationResult{{File: f}}}
		if created := resp.StatusCode == http.StatusCreated; created != (f.Instance == f.Revision) || f.Revision == 0 {
			return errors.New("the status does not match the stat")
		}
	case Delete:
		d := &lockapi.FileDeleted{}
		if err := json.Unmarshal(body, d); err != nil {
			return err
		}
		if d.Deleted != (d.Revision > 0) {
			return errors.New("deleted and revision do not agree")
		}
		c.Result = &lockapi.TransactionResult{Succeeded: true, Revision: d.Revision, Results: []lockapi.OperationResult{{Deleted: d}}}
	case List:
		return a.parseListed(resp, body)
	case DeleteBelow:
		var d struct {
			Deleted  int
			Revision uint64
		}
		if err := json.Unmarshal(body, &d); err != nil {
			return err
		}
		if d.Deleted > 0 && d.Revision == 0 {
			return errors.New("a deletion without a revision")
		}
		if c.Deleted = d.Deleted; d.Deleted == 0 {
			d.Revision = 0 // at most the revision at which the directory was empty
		}
		c.Result = &lockapi.TransactionResult{Succeeded: true, Revision: d.Revision}
	case Transact:
		c.Result = &lockapi.TransactionResult{}
		if err := json.Unmarshal(body, c.Result); err != nil {
			return err
		}
		if len(c.branch(c.Result.Succeeded)) != len(c.Result.Results) || c.Result.Revision == 0 {
			return errors.New("the results do not match a branch")
		}
	}
	return nil
}

// parseGot records the result of a read and its revision.
func (a *Attempt) parseGot(resp *http.Response, f *lockapi.File) error {
	asOf, err := strconv.ParseUint(resp.Header.Get(lockapi.HeaderRevision), 10, 64)
	a.Outcome = Done
	a.Files.Result = &lockapi.TransactionResult{Succeeded: true, Revision: asOf, Results: []lockapi.OperationResult{{File: f}}}
	return err
}

// parseListed records the result of a list and its revision. Only whole lists
// are recorded.
func (a *Attempt) parseListed(resp *http.Response, body []byte) error {
	var l lockapi.FileList
	if err := json.Unmarshal(body, &l); err != nil {
		return err
	}
	if l.Next != "" || len(l.Dirs) > 0 {
		return errors.New("a list of several pages, or with directories, that was not requested")
	}
	for i := range l.Files {
		if f := &l.Files[i]; (f.Content != nil || f.ContentBase64 != nil) && f.SHA256 != sum(f.Bytes()) {
			return errors.New("the content does not match its stat")
		}
		l.Files[i].Content, l.Files[i].ContentBase64 = nil, nil
	}
	asOf, err := strconv.ParseUint(resp.Header.Get(lockapi.HeaderRevision), 10, 64)
	a.Files.Listed = l.Files
	a.Files.Result = &lockapi.TransactionResult{Succeeded: true, Revision: asOf}
	return err
}

// fileRead returns the file that a read showed, with the checksum of its
// content but without the content.
func fileRead(path string, resp *http.Response, body []byte) (*lockapi.File, error) {
	f := &lockapi.File{}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(body, f); err != nil {
			return nil, err
		}
		if f.SHA256 != sum(f.Bytes()) || f.Path != path {
			return nil, errors.New("the content does not match its stat")
		}
		f.Content, f.ContentBase64 = nil, nil
		return f, nil
	}
	f.Path, f.Size, f.SHA256, f.Session = path, len(body), sum(body), resp.Header.Get(lockapi.HeaderSession)
	for _, n := range []struct {
		to   *uint64
		text string
	}{
		{&f.Revision, strings.Trim(resp.Header.Get("ETag"), `"`)},
		{&f.Instance, resp.Header.Get(lockapi.HeaderInstance)},
		{&f.Generation, resp.Header.Get(lockapi.HeaderGeneration)},
	} {
		var err error
		if *n.to, err = strconv.ParseUint(n.text, 10, 64); err != nil {
			return nil, err
		}
	}
	return f, nil
}
