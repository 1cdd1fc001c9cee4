package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

// works is the table of works. A work is written once, over target.Client and
// target.Session; etcd.go and zookeeper.go say what a call is in these systems.
var works = []work{
	{"cycle", "acquire + release", []int{1, 64, 256}, cycle},
	{"handover", "hand-overs of one lock", []int{16}, handover},
	{"read", "linearizable read of a lock", []int{64}, read},
	{"put", "put of 1 KiB, each its own key", []int{1, 8, 64, 256}, put},
	{"txn", "transaction: 2 conditions, 4 writes of 1 KiB", []int{64}, txn},
	{"get", "linearizable get of 1 KiB", []int{64}, get},
	{"cas", "compare-and-set of one counter", []int{16}, cas},
	{"failover", "gap after `kill -9` of the leader", []int{1}, nil},
}

// work is a row of works.
type work struct {
	name, title string
	sessions    []int
	rate        prepare // nil: kill the leader instead
}

// field is the participants of a run: a client and a session for each worker.
type field struct {
	clients  []target.Client
	sessions []target.Session
}

type operation = func(context.Context) error

// prepare makes the operation of each worker.
type prepare func(ctx context.Context, f *field) ([]operation, error)

// content is that of all files.
var content = bytes.Repeat([]byte{'x'}, 1<<10)

func path(work string, i int) string { return fmt.Sprintf("/peers-%s-%d", work, i) }

func cycle(_ context.Context, f *field) (all []operation, _ error) {
	for i, s := range f.sessions {
		all = append(all, func(ctx context.Context) error {
			if _, err := s.TryLock(ctx, path("cycle", i)); err != nil {
				return err
			}
			return s.Unlock(ctx)
		})
	}
	return all, nil
}

// handover checks that there is one holder. It does not count a grant to the
// previous holder.
func handover(_ context.Context, f *field) (all []operation, _ error) {
	var holders, previous atomic.Int64
	for i, s := range f.sessions {
		all = append(all, func(ctx context.Context) error {
			if _, err := s.Lock(ctx, path("handover", 0)); err != nil {
				return err
			}
			var err error
			if previous.Swap(int64(i)) == int64(i) {
				err = load.ErrNotCounted
			}
			if holders.Add(1) != 1 {
				err = errors.New("a lock has two holders")
			}
			holders.Add(-1)
			if failed := s.Unlock(ctx); failed != nil {
				return failed
			}
			return err
		})
	}
	return all, nil
}

// read reads a lock that the first session holds.
func read(ctx context.Context, f *field) (all []operation, err error) {
	for _, c := range f.clients {
		all = append(all, func(ctx context.Context) error { return c.Read(ctx, path("read", 0)) })
	}
	_, err = f.sessions[0].TryLock(ctx, path("read", 0))
	return all, err
}

func put(ctx context.Context, f *field) (all []operation, err error) {
	for i, s := range f.sessions {
		all = append(all, func(ctx context.Context) error { return s.WriteFile(ctx, path("put", i), content) })
	}
	return all, target.Each(len(all), func(i int) error { return all[i](ctx) })
}

func txn(ctx context.Context, f *field) (all []operation, err error) {
	const conditions, writes = 2, 4
	for i, s := range f.sessions {
		var paths []string
		for j := range writes {
			paths = append(paths, path("txn", i*writes+j))
		}
		all = append(all, func(ctx context.Context) error { return s.Transact(ctx, paths[:conditions], paths, content) })
	}
	return all, target.Each(len(all)*writes, func(i int) error {
		return f.sessions[i/writes].WriteFile(ctx, path("txn", i), content)
	})
}

func get(ctx context.Context, f *field) (all []operation, err error) {
	for _, c := range f.clients {
		all = append(all, func(ctx context.Context) error { return c.ReadFile(ctx, path("get", 0)) })
	}
	return all, f.sessions[0].WriteFile(ctx, path("get", 0), content)
}

// cas counts up one file. One operation is one increment, with all its tries. A
// counter that does not grow has lost one.
func cas(ctx context.Context, f *field) (all []operation, err error) {
	file := path("cas", 0)
	first, err := f.sessions[0].Swap(ctx, file, 0, []byte("0"))
	if err != nil && !errors.Is(err, target.ErrChanged) {
		return nil, err
	}
	for _, s := range f.sessions {
		now := first
		all = append(all, func(ctx context.Context) error {
			for {
				n, err := strconv.Atoi(string(now.Content))
				if err != nil {
					return err
				}
				got, err := s.Swap(ctx, file, now.Revision, strconv.AppendInt(nil, int64(n)+1, 10))
				if err != nil && !errors.Is(err, target.ErrChanged) {
					return err
				}
				if later, _ := strconv.Atoi(string(got.Content)); later <= n {
					return fmt.Errorf("%s was %d and then %.20q", file, n, got.Content)
				}
				now = got
				if err == nil {
					return nil
				}
			}
		})
	}
	return all, nil
}
