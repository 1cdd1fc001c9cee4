// Command peers runs the same works in Stout, etcd and ZooKeeper on this
// machine, and prints a table of their figures. It runs on Linux.
//
// Each system has three processes on loopback. Their settings are the defaults,
// and their data is on one disk: a write is on the disks of two servers before
// it is answered. The clients are client, go.etcd.io/etcd/client/v3 and
// github.com/go-zookeeper/zk. All nine processes run all the time, but one
// system has load at a time.
//
// Run it in the root of a clone. A system without its flag is left out.
//
//	mkdir -p bin/etcd && cd bin/etcd
//	printf 'package main\n\nimport (\n\t"os"\n\n\t"go.etcd.io/etcd/server/v3/etcdmain"\n)\n\nfunc main() { etcdmain.Main(os.Args) }\n' >main.go
//	go mod init etcd && go get go.etcd.io/etcd/server/v3@v3.7.3 && go build -o ../etcd-server . && cd ../..
//	apt-get install -y zookeeper        # Debian 12 has 3.8.0; or unpack a release, and name its directory lib
//	make peers ARGS="--etcd bin/etcd-server --zookeeper /usr/share/java"
//
// The go command cannot install etcd's server by its version, because its go.mod
// has replace directives. Hence the module of one file.
//
// Some choices decide what is compared:
//
//   - A session has a client with its own connection, to the leader. Stout's
//     client always calls the master. With connections to all servers, etcd was
//     slower, and ZooKeeper no faster.
//   - Sessions have a ttl of 12 s, and the clients keep them alive.
//   - A lock that is free is a key with the session's lease in etcd, made by one
//     transaction and deleted by one call; in ZooKeeper it is an ephemeral node.
//     Waiters use the locks of the clients' own packages.
//   - A read in ZooKeeper is a sync and a get: a get alone may be stale.
//   - Stout's writes carry a key, so that each happens exactly once. The others'
//     writes happen at most once.
//   - A refused compare-and-set returns the present content in Stout and etcd.
//     In ZooKeeper it takes a second call.
//   - In failover one client of each system knows all servers. It writes again
//     and again, and tries for 200 ms each time.
//   - etcd has a quota of 8 GiB, because it keeps the history. ZooKeeper has no
//     limit of connections from one address.
package main
