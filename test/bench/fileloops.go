package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

// fileBytes is the size of the files of these works.
const fileBytes = 1 << 10

// letter is the content of a file that is written again and again: text that
// differs each time, also from that of other letters. Through the door an equal
// write would be no change.
type letter struct {
	content []byte
	serial  int64
}

func newLetter() *letter {
	return &letter{content: bytes.Repeat([]byte{'.'}, fileBytes), serial: time.Now().UnixNano()}
}

// next returns the next content. It is valid until the following call.
func (l *letter) next() []byte {
	l.serial++
	copy(l.content, fmt.Sprintf("%20d\n", l.serial))
	return l.content
}

// preparePut: every worker overwrites a separate file.
func preparePut(ctx context.Context, b *bench, f *field) error {
	if err := f.openSessions(ctx, b); err != nil {
		return err
	}
	for i, s := range f.sessions {
		path, l := nodePath("put", i), newLetter()
		f.steps = append(f.steps, load.Timed(func(ctx context.Context) error {
			return s.WriteFile(ctx, path, l.next())
		}))
	}
	return f.writeFiles(ctx, "put", 1)
}

// prepareGet: every worker reads the same file.
func prepareGet(ctx context.Context, b *bench, f *field) error {
	if _, err := f.openOne(ctx, b); err != nil {
		return err
	}
	for _, c := range f.clients {
		f.steps = append(f.steps, load.Timed(func(ctx context.Context) error { return c.ReadFile(ctx, nodePath("get", 0)) }))
	}
	return f.writeFiles(ctx, "get", 1)
}

// The size of a transaction of the work txn.
const (
	conditions = 2
	operations = 4
)

// prepareTxn: every worker writes several separate files in one transaction,
// provided that some of them exist.
func prepareTxn(ctx context.Context, b *bench, f *field) error {
	if err := f.openSessions(ctx, b); err != nil {
		return err
	}
	for i, s := range f.sessions {
		var written []string
		for j := range operations {
			written = append(written, nodePath("txn", i*operations+j))
		}
		l := newLetter()
		f.steps = append(f.steps, load.Timed(func(ctx context.Context) error {
			return s.Transact(ctx, written[:conditions], written, l.next())
		}))
	}
	return f.writeFiles(ctx, "txn", operations)
}

// writeFiles makes that many files of the work for each session.
func (f *field) writeFiles(ctx context.Context, work string, each int) error {
	return target.Each(len(f.sessions), func(i int) error {
		l := newLetter()
		for j := range each {
			if err := f.sessions[i].WriteFile(ctx, nodePath(work, i*each+j), l.next()); err != nil {
				return err
			}
		}
		return nil
	})
}
