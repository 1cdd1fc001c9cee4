package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// sdkFiles is a client that writes files with the Go SDK. The SDK repeats a
// session's writes until they are answered.
type sdkFiles struct {
	*sdk
	pen
}

func newSDKFiles(title string, opts *Options) (*sdkFiles, error) {
	w, err := newSDK(title, opts)
	if err != nil {
		return nil, err
	}
	return &sdkFiles{sdk: w, pen: pen{author: title}}, nil
}

func (w *sdkFiles) work(ctx context.Context, r *rand.Rand, epoch int) {
	s, err := w.client.NewSession(ctx, client.TTL(between(r, 2*time.Second, 5*time.Second)), client.Name(w.author))
	if err != nil {
		return // the epoch is over
	}
	desk := deskOf(epoch)
	for ctx.Err() == nil && s.Err() == nil {
		w.round(ctx, r, s, desk)
		cell.Pause(ctx, between(r, writePause, 2*writePause))
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUp)
	defer cancel()
	_ = s.Close(end) // if this fails, the session expires
}

// round makes one write, or a few related ones. The results are recorded.
func (w *sdkFiles) round(ctx context.Context, r *rand.Rand, s *client.Session, d desk) {
	ctx, cancel := context.WithTimeout(ctx, 2*answerTime)
	defer cancel()
	switch r.IntN(10) {
	case 0:
		_, _ = s.Put(ctx, d.note, w.text())
	case 1:
		_, _ = s.Put(ctx, d.member, w.text(), client.Ephemeral())
	case 2:
		_, _ = s.CreateSequential(ctx, d.queue, w.text())
	case 3:
		_, _ = s.Delete(ctx, d.note)
	case 4:
		w.compareAndSet(ctx, s, d.counter)
	case 5:
		w.underLock(ctx, r, s, d)
	case 6:
		_, _ = w.client.Put(ctx, d.note, w.text()) // without a session: at most once
	case 7:
		w.transact(ctx, r, s, d)
	case 8:
		w.share(ctx, r, s, d)
	case 9:
		for _, err := range w.client.List(ctx, d.pair) {
			if err != nil {
				return
			}
		}
		if r.IntN(3) == 0 {
			_, _, _ = s.DeleteBelow(ctx, d.pair)
		}
	}
}

// share acquires a lock in shared mode, or sometimes exclusively, writes under
// it, and releases it.
func (w *sdkFiles) share(ctx context.Context, r *rand.Rand, s *client.Session, d desk) {
	mode := []client.LockOption{client.Shared()}
	if r.IntN(4) == 0 {
		mode = nil
	}
	taken, err := s.Txn().Then(client.OpAcquire(d.shared, w.author, mode...), client.OpPut(d.left, w.text())).Commit(ctx)
	if err != nil {
		return
	}
	g := taken.Results[0].Grant
	_, _ = s.Txn().If(client.WhenSequencer(g.Sequencer)).Then(client.OpPut(d.right, w.text())).Else(client.OpGet(d.right)).Commit(ctx)
	cell.Pause(ctx, between(r, 0, 100*time.Millisecond))
	_, _ = s.Txn().Then(client.OpRelease(d.shared, w.author, g.Token), client.OpPut(d.left, w.text())).Commit(ctx)
}

// compareAndSet writes a change of the content that it read, several times in a
// row, so that several clients compete.
func (w *sdkFiles) compareAndSet(ctx context.Context, s *client.Session, path string) {
	for range 3 {
		f, err := w.client.Get(ctx, path)
		switch {
		case errors.Is(err, lockapi.CodeNotFound):
			_, _ = s.Create(ctx, path, w.text())
		case err == nil:
			_, _ = s.Put(ctx, path, w.text(), client.IfRevision(f.Revision))
		}
	}
}

// underLock writes under a hold, and during its release.
func (w *sdkFiles) underLock(ctx context.Context, r *rand.Rand, s *client.Session, d desk) {
	held, err := s.TryLock(ctx, d.lock)
	if err != nil {
		return
	}
	for range 1 + r.IntN(3) {
		_, _ = s.Put(ctx, d.guarded, w.text(), client.While(held))
	}
	late := make(chan struct{})
	content := w.text()
	go func() {
		defer close(late)
		_, _ = s.Put(ctx, d.guarded, content, client.While(held))
	}()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUp)
	defer cancel()
	_ = held.Unlock(end) // if this fails, the session keeps releasing it
	<-late
}

// transact writes two files at once, or acquires a lock beside them and
// releases it.
func (w *sdkFiles) transact(ctx context.Context, r *rand.Rand, s *client.Session, d desk) {
	if r.IntN(2) == 0 {
		_, _ = s.Txn().If(client.WhenPresent(d.left)).
			Then(client.OpPut(d.left, w.text()), client.OpPut(d.right, w.text())).
			Else(client.OpCreate(d.left, w.text()), client.OpDelete(d.right)).Commit(ctx)
		return
	}
	taken, err := s.Txn().If(client.WhenFree(d.both)).Then(client.OpAcquire(d.both, w.author), client.OpPut(d.left, w.text())).Commit(ctx)
	if err != nil || !taken.Succeeded {
		return
	}
	token := taken.Results[0].Grant.Token
	guard := client.WhenSequencer(taken.Results[0].Grant.Sequencer)
	_, _ = s.Txn().If(guard).Then(client.OpPut(d.right, w.text()), client.OpGet(d.left)).Commit(ctx)
	_, _ = s.Txn().Then(client.OpRelease(d.both, w.author, token), client.OpPut(d.right, w.text())).Commit(ctx)
}

func (w *sdkFiles) prove(ctx context.Context) error {
	s, err := w.client.NewSession(ctx, client.Name(w.author))
	if err != nil {
		return err
	}
	if _, err := s.Put(ctx, "/chaos/prove/"+w.author, w.text(), client.Ephemeral()); err != nil {
		return fmt.Errorf("write a file: %w", err)
	}
	return s.Close(ctx)
}
