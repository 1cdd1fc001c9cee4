package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/stoutlock/stout/test/internal/target"
)

// etcdAt starts etcd with its default settings, but with room for the history
// of a long comparison.
func etcdAt(binary string) func(context.Context, string) (service, error) {
	return func(ctx context.Context, dir string) (service, error) {
		clients, err := addresses(members)
		if err != nil {
			return nil, err
		}
		raft, err := addresses(members)
		if err != nil {
			return nil, err
		}
		var list []string
		for i, addr := range raft {
			list = append(list, fmt.Sprintf("e%d=http://%s", i, addr))
		}
		e := &ensemble{addrs: clients, connect: newEtcd, find: etcdLeader}
		for i := range members {
			name := fmt.Sprintf("e%d", i)
			e.add(dir, name, binary, "--name", name, "--data-dir", filepath.Join(dir, name),
				"--listen-client-urls", "http://"+clients[i], "--advertise-client-urls", "http://"+clients[i],
				"--listen-peer-urls", "http://"+raft[i], "--initial-advertise-peer-urls", "http://"+raft[i],
				"--initial-cluster", strings.Join(list, ","), "--quota-backend-bytes", "8589934592")
		}
		return e.start(ctx)
	}
}

func etcdLeader(ctx context.Context, addrs []string) (int, error) {
	c, err := dialEtcd(addrs)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	leader := -1
	for i, addr := range addrs {
		status, err := c.Status(ctx, addr)
		if err != nil {
			return 0, err
		}
		if status.Leader == status.Header.MemberId {
			leader = i
		}
	}
	if leader < 0 {
		return 0, errors.New("etcd has no leader")
	}
	return leader, nil
}

type etcdClient struct {
	target.Client // Watch: nil
	c             *clientv3.Client
}

func newEtcd(addrs []string) (target.Client, error) {
	c, err := dialEtcd(addrs)
	if err != nil {
		return nil, err
	}
	return &etcdClient{c: c}, nil
}

func dialEtcd(addrs []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()})
}

func (c *etcdClient) Open(_ context.Context, ttl time.Duration) (target.Session, error) {
	s, err := concurrency.NewSession(c.c, concurrency.WithTTL(int(ttl.Seconds())))
	if err != nil {
		return nil, err
	}
	return &etcdSession{c: c.c, s: s}, nil
}

func (c *etcdClient) Read(ctx context.Context, path string) error { return c.ReadFile(ctx, path) }

// ReadFile is linearizable, as etcd's reads are by default.
func (c *etcdClient) ReadFile(ctx context.Context, path string) error {
	got, err := c.c.Get(ctx, path)
	if err == nil && len(got.Kvs) != 1 {
		err = target.ErrAbsent
	}
	return err
}

func (c *etcdClient) Close() error { return c.c.Close() }

type etcdSession struct {
	c      *clientv3.Client
	s      *concurrency.Session
	unlock operation
}

// Lock uses the Mutex of etcd's own package.
func (s *etcdSession) Lock(ctx context.Context, path string) (uint64, error) {
	m := concurrency.NewMutex(s.s, path)
	s.unlock = m.Unlock
	return 0, m.Lock(ctx)
}

// TryLock makes a key with the session's lease in one call, and Unlock deletes
// it in another. The Mutex would take more of them.
func (s *etcdSession) TryLock(ctx context.Context, path string) (uint64, error) {
	got, err := s.c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(path), "=", 0)).
		Then(clientv3.OpPut(path, "", clientv3.WithLease(s.s.Lease()))).Commit()
	if err == nil && !got.Succeeded {
		err = target.ErrRefused
	}
	s.unlock = func(ctx context.Context) error {
		_, err := s.c.Delete(ctx, path)
		return err
	}
	return 0, err
}

func (s *etcdSession) Unlock(ctx context.Context) error { return s.unlock(ctx) }

func (s *etcdSession) WriteFile(ctx context.Context, path string, content []byte) error {
	_, err := s.c.Put(ctx, path, string(content))
	return err
}

// Swap gets the present file in the same call when it is refused.
func (s *etcdSession) Swap(ctx context.Context, path string, revision uint64, content []byte) (target.File, error) {
	got, err := s.c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(path), "=", int64(revision))).
		Then(clientv3.OpPut(path, string(content))).Else(clientv3.OpGet(path)).Commit()
	if err != nil {
		return target.File{}, err
	}
	if got.Succeeded {
		return target.File{Revision: uint64(got.Header.Revision), Content: content}, nil
	}
	found := got.Responses[0].GetResponseRange().Kvs
	if len(found) == 0 {
		return target.File{}, target.ErrChanged
	}
	return target.File{Revision: uint64(found[0].ModRevision), Content: found[0].Value}, target.ErrChanged
}

func (s *etcdSession) Transact(ctx context.Context, present, written []string, content []byte) error {
	var conditions []clientv3.Cmp
	for _, path := range present {
		conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(path), ">", 0))
	}
	var writes []clientv3.Op
	for _, path := range written {
		writes = append(writes, clientv3.OpPut(path, string(content)))
	}
	got, err := s.c.Txn(ctx).If(conditions...).Then(writes...).Commit()
	if err == nil && !got.Succeeded {
		err = target.ErrAbsent
	}
	return err
}

func (s *etcdSession) Close(context.Context) error { return s.s.Close() }
