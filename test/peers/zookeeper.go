package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/stoutlock/stout/test/internal/target"
)

// zooCfg is the sample configuration of ZooKeeper's releases, without the limit
// of connections from one address and the administration's port.
const zooCfg = `tickTime=2000
initLimit=10
syncLimit=5
maxClientCnxns=0
admin.enableServer=false
dataDir=%s
clientPort=%s
clientPortAddress=%s
%s`

// zookeeperAt starts ZooKeeper from a directory of jars, with the heap of
// zkServer.sh.
func zookeeperAt(jars string) func(context.Context, string) (service, error) {
	return func(ctx context.Context, dir string) (service, error) {
		clients, err := addresses(members)
		if err != nil {
			return nil, err
		}
		raft, err := addresses(2 * members)
		if err != nil {
			return nil, err
		}
		// Debian's zookeeper.jar names the other jars that it needs.
		class := filepath.Join(jars, "zookeeper.jar")
		if _, err := os.Stat(class); err != nil {
			class = filepath.Join(jars, "*")
		}
		// Without a configuration the jars of a release log every request.
		err = os.WriteFile(filepath.Join(dir, "logback.xml"), []byte("<configuration><root level=\"WARN\"/></configuration>\n"), 0o644)
		if err != nil {
			return nil, err
		}
		var list strings.Builder
		for i := range members {
			_, election, _ := strings.Cut(raft[members+i], ":")
			fmt.Fprintf(&list, "server.%d=%s:%s\n", i+1, raft[i], election)
		}
		e := &ensemble{addrs: clients, connect: newZooKeeper, find: zooLeader}
		for i, addr := range clients {
			name := fmt.Sprintf("z%d", i+1)
			data := filepath.Join(dir, name)
			host, port, _ := strings.Cut(addr, ":")
			config := filepath.Join(dir, name+".cfg")
			err := errors.Join(os.MkdirAll(data, 0o755), os.WriteFile(filepath.Join(data, "myid"), fmt.Appendln(nil, i+1), 0o644),
				os.WriteFile(config, fmt.Appendf(nil, zooCfg, data, port, host, list.String()), 0o644))
			if err != nil {
				return nil, err
			}
			e.add(dir, name, "java", "-Xmx1000m", "-cp", dir+":"+class, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
		}
		return e.start(ctx)
	}
}

// zooLeader asks each server by its command srvr. The client's own call cannot
// read the answers of ZooKeeper 3.8.
func zooLeader(ctx context.Context, addrs []string) (int, error) {
	leader := -1
	for i, addr := range addrs {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return 0, err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(2 * time.Second))
		_, failed := io.WriteString(c, "srvr")
		answer, err := io.ReadAll(c)
		_, mode, serves := strings.Cut(string(answer), "Mode: ")
		if err = errors.Join(failed, err); err != nil || !serves {
			return 0, fmt.Errorf("%s is not ready: %.80q %w", addr, answer, err)
		}
		if strings.HasPrefix(mode, "leader") {
			leader = i
		}
	}
	if leader < 0 {
		return 0, errors.New("ZooKeeper has no leader")
	}
	return leader, nil
}

// zooClient connects when it opens its session, which the connection is as
// well. A server queues 50 new connections only, and Open is called for fewer
// at once.
type zooClient struct {
	target.Client // Watch: nil
	addrs         []string
	c             *zk.Conn
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func newZooKeeper(addrs []string) (target.Client, error) { return &zooClient{addrs: addrs}, nil }

func (c *zooClient) Open(_ context.Context, ttl time.Duration) (target.Session, error) {
	var err error
	if c.c, _, err = zk.Connect(c.addrs, ttl, zk.WithLogger(silent{}), zk.WithLogInfo(false)); err != nil {
		return nil, err
	}
	if _, _, err = c.c.Exists("/"); err != nil { // waits for the connection
		c.c.Close()
		return nil, err
	}
	return &zooSession{c: c.c}, nil
}

func (c *zooClient) Read(ctx context.Context, path string) error { return c.ReadFile(ctx, path) }

// ReadFile is linearizable by its sync: the server catches up with the leader
// before it answers the get.
func (c *zooClient) ReadFile(_ context.Context, path string) error {
	if _, err := c.c.Sync(path); err != nil {
		return err
	}
	_, _, err := c.c.Get(path)
	return err
}

// Close does nothing: the session's Close ends the connection.
func (c *zooClient) Close() error { return nil }

type zooSession struct {
	c      *zk.Conn
	unlock func() error
}

var everyone = zk.WorldACL(zk.PermAll)

// Lock uses the lock of the client's package.
func (s *zooSession) Lock(_ context.Context, path string) (uint64, error) {
	l := zk.NewLock(s.c, path, everyone)
	s.unlock = l.Unlock
	return 0, l.Lock()
}

// TryLock creates an ephemeral node, and Unlock deletes it.
func (s *zooSession) TryLock(_ context.Context, path string) (uint64, error) {
	s.unlock = func() error { return s.c.Delete(path, -1) }
	_, err := s.c.Create(path, nil, zk.FlagEphemeral, everyone)
	if errors.Is(err, zk.ErrNodeExists) {
		err = target.ErrRefused
	}
	return 0, err
}

func (s *zooSession) Unlock(context.Context) error { return s.unlock() }

func (s *zooSession) WriteFile(_ context.Context, path string, content []byte) error {
	_, err := s.c.Set(path, content, -1)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = s.c.Create(path, content, 0, everyone)
	}
	return err
}

// Swap gets the present node with a second call when it is refused. A node's
// first version is 0, and a file's first revision 1.
func (s *zooSession) Swap(_ context.Context, path string, revision uint64, content []byte) (target.File, error) {
	var err error
	if revision == 0 {
		_, err = s.c.Create(path, content, 0, everyone)
	} else {
		_, err = s.c.Set(path, content, int32(revision)-1)
	}
	if err == nil {
		return target.File{Revision: revision + 1, Content: content}, nil
	}
	if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNodeExists) {
		return target.File{}, err
	}
	found, stat, err := s.c.Get(path)
	if err != nil {
		return target.File{}, err
	}
	return target.File{Revision: uint64(stat.Version) + 1, Content: found}, target.ErrChanged
}

func (s *zooSession) Transact(_ context.Context, present, written []string, content []byte) error {
	var all []any
	for _, path := range present {
		all = append(all, &zk.CheckVersionRequest{Path: path, Version: -1})
	}
	for _, path := range written {
		all = append(all, &zk.SetDataRequest{Path: path, Data: content, Version: -1})
	}
	got, err := s.c.Multi(all...)
	for _, one := range got {
		err = errors.Join(err, one.Error)
	}
	return err
}

func (s *zooSession) Close(context.Context) error {
	s.c.Close()
	return nil
}
