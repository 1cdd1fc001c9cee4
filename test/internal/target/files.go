package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

func (c sdkClient) ReadFile(ctx context.Context, path string) error {
	_, err := c.c.Get(ctx, path)
	return err
}

func (s *sdkSession) WriteFile(ctx context.Context, path string, content []byte) error {
	_, err := s.s.Put(ctx, path, content)
	return err
}

func (s *sdkSession) Swap(ctx context.Context, path string, revision uint64, content []byte) (File, error) {
	condition := client.IfAbsent()
	if revision > 0 {
		condition = client.IfRevision(revision)
	}
	stat, err := s.s.Put(ctx, path, content, condition, client.ReturnCurrent())
	return swapped(&stat, content, err)
}

func swapped(stat *lockapi.FileStat, content []byte, err error) (File, error) {
	if err == nil {
		return File{stat.Revision, content}, nil
	}
	refused, ok := errors.AsType[*lockapi.Error](err)
	if ok && refused.Code == lockapi.CodePrecondition && refused.Current != nil {
		return File{refused.Current.Revision, refused.Current.Bytes()}, err
	}
	return File{}, err
}

func (s *sdkSession) Transact(ctx context.Context, present, written []string, content []byte) error {
	t := s.s.Txn()
	for _, path := range present {
		t.If(client.WhenPresent(path))
	}
	for _, path := range written {
		t.Then(client.OpPut(path, content))
	}
	done, err := t.Commit(ctx)
	return succeeded(done.Succeeded, err)
}

func (c *Raw) ReadFile(ctx context.Context, path string) error {
	return c.call(ctx, http.MethodGet, lockapi.RouteFiles+path, nil, nil, nil)
}

// WriteFile sends a copy, because the transport may still be reading it after
// the answer.
func (s *rawSession) WriteFile(ctx context.Context, path string, content []byte) error {
	return s.c.call(ctx, http.MethodPut, s.fileRoute(path), nil, bytes.Clone(content), nil)
}

func (s *rawSession) Swap(ctx context.Context, path string, revision uint64, content []byte) (File, error) {
	condition := http.Header{"If-None-Match": {"*"}}
	if revision > 0 {
		condition = http.Header{"If-Match": {fmt.Sprintf(`"%d"`, revision)}}
	}
	var stat lockapi.FileStat
	err := s.c.call(ctx, http.MethodPut, s.fileRoute(path)+"&as=json&content=true", condition, bytes.Clone(content), &stat)
	return swapped(&stat, content, err)
}

// fileRoute returns the path and query with which the session writes a file.
func (s *rawSession) fileRoute(path string) string {
	return lockapi.RouteFiles + path + "?session=" + url.QueryEscape(s.id)
}

func (s *rawSession) Transact(ctx context.Context, present, written []string, content []byte) error {
	text, exists := string(content), true
	t := lockapi.Transaction{Session: s.id}
	for _, path := range present {
		t.If = append(t.If, lockapi.Condition{File: path, Exists: &exists})
	}
	for _, path := range written {
		t.Then = append(t.Then, lockapi.Operation{Put: &lockapi.WriteOperation{Path: path, Content: &text}})
	}
	var done struct{ Succeeded bool }
	err := s.c.call(ctx, http.MethodPost, lockapi.RouteTransactions, nil, t, &done)
	return succeeded(done.Succeeded, err)
}

// succeeded returns the result of a transaction without an else branch.
func succeeded(ok bool, err error) error {
	if err == nil && !ok {
		return ErrAbsent
	}
	return err
}
