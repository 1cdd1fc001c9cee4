package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// rawFiles is a client of plain HTTP that writes files. It repeats a write with
// a key, at any replica, until it is answered or patience ends. It sends a
// write without a key once.
type rawFiles struct {
	*raw
	pen
}

func newRawFiles(title string, opts *Options) *rawFiles {
	return &rawFiles{raw: newRaw(title, opts), pen: pen{author: title}}
}

func (w *rawFiles) work(ctx context.Context, r *rand.Rand, epoch int) {
	s, err := w.open(ctx, r, between(r, 2*time.Second, 5*time.Second))
	if err != nil {
		cell.Pause(ctx, 50*time.Millisecond)
		return
	}
	defer s.abandon()
	for d := deskOf(epoch); ctx.Err() == nil; {
		if err := w.round(ctx, r, s.id, d); errors.Is(err, lockapi.CodeSessionNotFound) {
			return
		}
		cell.Pause(ctx, between(r, writePause, 2*writePause))
	}
	if r.IntN(4) > 0 {
		_ = w.brief(ctx, r, http.MethodDelete, sessionRoute(s.id), nil, nil) // if this fails, the session expires
	}
}

type fileRequest struct {
	method, target string
	header         http.Header
	body           []byte
}

func (w *rawFiles) send(ctx context.Context, r *rand.Rand, q *fileRequest, out any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	_, err := cell.Send(ctx, w.http, q.method, w.opts.URLs[r.IntN(len(w.opts.URLs))]+q.target, q.header, q.body, out)
	return err
}

// keyed makes a call with a new key, and sometimes repeats it after its answer.
func (w *rawFiles) keyed(ctx context.Context, r *rand.Rand, q *fileRequest, out any) (err error) {
	w.texts++
	if q.header == nil {
		q.header = http.Header{}
	}
	q.header.Set(lockapi.HeaderIdempotencyKey, fmt.Sprintf("%s-%d", w.author, w.texts))
	for range 8 {
		if err = w.send(ctx, r, q, out); !lost(err) {
			break
		}
		cell.Pause(ctx, between(r, 0, 100*time.Millisecond))
	}
	if err == nil && r.IntN(4) == 0 {
		_ = w.send(ctx, r, q, nil) // its answer is recorded
	}
	return err
}

// write returns the call that writes a file, or makes a sequential file.
func (w *rawFiles) write(method, path string, q url.Values) *fileRequest {
	return &fileRequest{method: method, target: fileRoute(path) + "?" + q.Encode(), body: w.text(), header: http.Header{}}
}

func fileRoute(path string) string { return lockapi.RouteFiles + lockapi.EscapePath(path) }

func listRoute(dir string) string {
	return lockapi.RouteFiles + "?" + url.Values{"prefix": {dir}}.Encode()
}

// round makes one write, or a few related ones.
func (w *rawFiles) round(ctx context.Context, r *rand.Rand, session string, d desk) error {
	own := url.Values{"session": {session}}
	switch r.IntN(10) {
	case 0:
		return w.keyed(ctx, r, w.write(http.MethodPut, d.note, own), nil)
	case 1:
		own.Set("ephemeral", fmt.Sprint(r.IntN(4) > 0))
		return w.keyed(ctx, r, w.write(http.MethodPut, d.member, own), nil)
	case 2:
		return w.keyed(ctx, r, w.write(http.MethodPost, d.queue, own), nil)
	case 3:
		return w.keyed(ctx, r, &fileRequest{method: http.MethodDelete, target: fileRoute(d.note) + "?" + own.Encode()}, nil)
	case 4:
		return w.compareAndSet(ctx, r, d.counter, own)
	case 5:
		return w.send(ctx, r, w.write(http.MethodPut, d.note, nil), nil)
	case 6:
		return w.send(ctx, r, &fileRequest{method: http.MethodGet, target: listRoute(d.pair)}, nil)
	case 7:
		own.Set("prefix", d.pair)
		return w.keyed(ctx, r, &fileRequest{method: http.MethodDelete, target: lockapi.RouteFiles + "?" + own.Encode()}, nil)
	}
	return w.hold(ctx, r, session, d)
}

// compareAndSet writes a change of the content that it read, several times in a
// row, so that several clients compete.
func (w *rawFiles) compareAndSet(ctx context.Context, r *rand.Rand, path string, own url.Values) error {
	for range 3 {
		q := w.write(http.MethodPut, path, own)
		var f lockapi.File
		err := w.send(ctx, r, &fileRequest{method: http.MethodGet, target: fileRoute(path) + "?as=json"}, &f)
		switch {
		case errors.Is(err, lockapi.CodeNotFound):
			q.header.Set("If-None-Match", "*")
		case err != nil:
			return nil
		default:
			q.header.Set("If-Match", fmt.Sprintf(`"%d"`, f.Revision))
		}
		if err := w.keyed(ctx, r, q, nil); errors.Is(err, lockapi.CodeSessionNotFound) {
			return err
		}
	}
	return nil
}

// hold acquires a lock in a transaction that also writes, and writes under the
// lock. It releases the lock while it writes once more: that write is in time
// or too late.
func (w *rawFiles) hold(ctx context.Context, r *rand.Rand, session string, d desk) error {
	text := func() *string { s := string(w.text()); return &s }
	var taken lockapi.TransactionResult
	err := w.transact(ctx, r, &lockapi.Transaction{Session: session, Then: []lockapi.Operation{
		{Put: &lockapi.WriteOperation{Path: d.left, Content: text()}},
		{Acquire: &lockapi.AcquireOperation{Path: d.both, Handle: w.author}},
		{Put: &lockapi.WriteOperation{Path: d.right, Content: text()}},
	}}, &taken)
	if err != nil {
		return err
	}
	grant := taken.Results[1].Grant
	guarded := func() *fileRequest {
		return w.write(http.MethodPut, d.left, url.Values{"session": {session}, "sequencer": {grant.Sequencer}})
	}
	if err := w.keyed(ctx, r, guarded(), nil); errors.Is(err, lockapi.CodeSessionNotFound) {
		return err
	}
	late, own := guarded(), rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		cell.Pause(ctx, between(own, 0, 10*time.Millisecond))
		_ = w.send(ctx, own, late, nil)
	}()
	err = w.transact(ctx, r, &lockapi.Transaction{Session: session, Then: []lockapi.Operation{
		{Release: &lockapi.ReleaseOperation{Path: d.both, Handle: w.author, Token: grant.Token}},
		{Get: &lockapi.FileOperation{Path: d.left}},
		{Delete: &lockapi.FileOperation{Path: d.right}},
	}}, nil)
	<-done
	return err
}

func (w *rawFiles) transact(ctx context.Context, r *rand.Rand, t *lockapi.Transaction, out any) error {
	body, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return w.keyed(ctx, r, &fileRequest{method: http.MethodPost, target: lockapi.RouteTransactions, body: body,
		header: http.Header{"Content-Type": {"application/json"}}}, out)
}

func (w *rawFiles) prove(ctx context.Context) error {
	r := rand.New(rand.NewPCG(w.opts.Seed, uint64(len(w.author))))
	var opened lockapi.Session
	if err := w.insist(ctx, r, http.MethodPost, lockapi.RouteSessions, lockapi.NewSessionRequest(), &opened); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	q := w.write(http.MethodPut, "/chaos/prove/"+w.author, url.Values{"session": {opened.ID}, "ephemeral": {"true"}})
	if err := w.keyed(ctx, r, q, nil); err != nil {
		return fmt.Errorf("write a file: %w", err)
	}
	if err := w.insist(ctx, r, http.MethodDelete, sessionRoute(opened.ID), nil, nil); err != nil {
		return fmt.Errorf("close the session: %w", err)
	}
	return nil
}
