package imports

// module is the import path prefix of all packages of the project.
const module = "github.com/stoutlock/stout/"

// arrow lists the packages of the project that a package may import. A pattern
// that ends in "/..." also matches everything below.
type arrow struct {
	from string
	to   []string
	why  string
}

// arrows lists the layers, the top first: a package imports only from the rows
// below its own. docs/design.md shows them. The first row that matches a
// package counts; a package without a row is an error.
var arrows = []arrow{
	{"test/sim/...", []string{"test/...", "client", "client/admin", "lockapi", "lockapi/server", "master", "replica", "replica/membership", "replica/datadir", "replica/state", "replica/state/access", "replica/admission", "replica/rafttransport"},
		"a simulated cell is the server's own layers, put together as command stoutd does"},
	{"test/model", []string{"replica/state", "replica/state/access"},
		"the model shares the types of operations and outcomes with the state, and nothing else"},
	{"test/crash/...", []string{"test/...", "replica/datadir"},
		"the stores of a replica lose their power, with nothing around them"},
	{"test/...", []string{"test/...", "client", "client/admin", "client/recipe", "lockapi", "internal/..."},
		"a cell under test is seen from outside, through processes and the contract"},
	{"cmd/stoutd", []string{"cmd/stoutd/...", "lockapi", "replica", "replica/membership", "replica/peerconn", "internal/..."},
		"the program is flags, signals and a supervisor around package embed"},
	{"cmd/stoutd/embed", []string{"cmd/stoutd/config", "cmd/stoutd/internal/setup", "lockapi", "lockapi/server", "master", "replica", "replica/membership", "replica/disk", "replica/peerconn", "replica/state", "lease", "internal/..."},
		"one package puts the layers together; it does not use its own client"},
	{"cmd/stoutd/internal/setup", []string{"cmd/stoutd/config", "internal/..."},
		"the log and the errors about settings belong to no layer"},
	{"cmd/stoutd/config", []string{"lockapi", "master", "lease", "replica/membership", "internal/..."},
		"settings are checked against what the layers declare; it starts no layer"},
	{"cmd/stout/...", []string{"cmd/stout/...", "client", "client/admin", "client/recipe", "lockapi", "internal/..."},
		"the CLI is a user of the SDK and of the contract, like any other"},
	{"examples/...", []string{"client", "client/recipe"}, "an example is what a caller could have written"},
	{"client/stouttest", []string{"client", "lockapi", "lockapi/server", "master", "replica/state", "internal/memlog", "lease"},
		"a cell for tests is the server's own layers over a log in memory, not a copy of them"},
	{"client/admin", []string{"client", "client/internal/bridge", "lockapi", "internal/backup"},
		"an operator's calls are made as the client makes its own; a program that only takes locks does not see them"},
	{"client/otelstout", []string{"client", "lockapi"}, "traces are an option of the SDK; a program without them does not link them"},
	{"client/promstout", []string{"client"}, "metrics are an option of the SDK; a program without them does not link Prometheus"},
	{"client/fence", []string{"lockapi", "internal/backup"}, "a guard runs at the resource, which takes no lock: it needs no client"},
	{"client/recipe", []string{"client", "lockapi"}, "a recipe is what a caller could have written: it sees the exported parts only"},
	{"client", []string{"lockapi", "internal/boottime", "client/internal/bridge", "client/internal/call", "client/internal/decode", "client/internal/timing"},
		"a user of the SDK links the contract and nothing of the server"},
	{"client/internal/bridge", []string{"client/internal/call", "lockapi"}, "it describes the calls that package admin makes over a client"},
	{"client/internal/call", []string{"lockapi", "internal/dial", "client/internal/decode", "client/internal/timing", "client/internal/wire"},
		"how a call reaches the cell is apart from what it means"},
	{"client/internal/decode", []string{"lockapi"}, "it reads the contract's answers, and does not check them"},
	{"client/internal/timing", nil, "pauses and waits know no calls"},
	{"client/internal/wire", nil, "it carries bytes and does not read them"},
	{"lockapi/server", []string{"lockapi", "master", "lease", "internal/audit", "internal/backup", "internal/metric", "internal/identity", "internal/browser", "internal/throttle", "internal/page", "lockapi/server/internal/codec", "lockapi/server/internal/consul", "lockapi/server/internal/gate", "lockapi/server/internal/peers", "lockapi/server/internal/stream", "lockapi/server/internal/wire"},
		"the edge reads a call, hands it to the master, and writes the reply; it does not see the log"},
	{"lockapi/server/internal/stream", []string{"lockapi", "lockapi/server/internal/codec"}, "it sends events that it is given, and does not know who may see them"},
	{"lockapi/server/internal/codec", []string{"lockapi"}, "it reads and writes bodies, whatever value they become"},
	{"lockapi/server/internal/consul", []string{"lockapi"}, "it turns requests into calls and answers into Consul's, and makes the calls through what the server gives it"},
	{"lockapi/server/internal/gate", []string{"internal/audit", "lockapi/server/internal/wire"}, "it counts connections and calls and does not read them"},
	{"lockapi/server/internal/peers", []string{"lockapi", "lease"}, "it reaches the other members and does not read what it sends"},
	{"lockapi/server/internal/wire", nil, "it carries requests and replies and does not read them"},
	{"internal/memlog", []string{"internal/metric", "replica/membership", "replica/events", "replica/state", "replica/admission", "lease"},
		"it stands in for package replica below an office, without what that links"},
	{"master", []string{"internal/faultpoint", "replica/membership", "replica/deadlock", "replica/events", "replica/state", "replica/state/access", "lease", "lockapi", "internal/wait", "internal/metric", "internal/progress", "master/internal/batch", "master/internal/members", "master/internal/quota", "master/internal/rights"},
		"an office is tested without HTTP and without Raft; it declares the parts of a replica that it needs"},
	{"master/internal/batch", []string{"internal/faultpoint", "replica/membership", "replica/state", "internal/metric", "internal/progress", "internal/wait"},
		"it joins commands into entries of any log and does not read them"},
	{"master/internal/members", []string{"lockapi", "replica/admission", "replica/membership", "replica/state"}, "it changes the members in any office, over any configuration"},
	{"master/internal/rights", []string{"lockapi", "replica/state", "replica/state/access"}, "a principal may or may not by the state and the call only"},
	{"master/internal/quota", []string{"lockapi", "replica/state", "replica/state/access"}, "a call fits or not by the state and the calls under way only"},
	{"replica", []string{"internal/faultpoint", "replica/membership", "replica/events", "replica/state", "replica/admission", "replica/peerconn", "replica/datadir", "replica/raftstore", "replica/rafttransport", "replica/raftlogger", "lease", "internal/wait", "internal/boottime", "internal/metric", "internal/throttle", "internal/progress"},
		"a member of the cell knows neither calls nor mastership; it reads the disk through the data directory"},
	{"replica/rafttransport", []string{"internal/faultpoint", "replica/raftstore", "replica/admission", "replica/membership", "replica/msglimit", "replica/raftlogger"},
		"it corrects what the library sends, over any connection"},
	{"replica/raftstore", []string{"internal/faultpoint", "replica/datadir", "lease", "internal/metric"},
		"it corrects what the library stores, in any store"},
	{"replica/datadir", []string{"replica/admission", "replica/boltlog", "replica/snapshots", "replica/disk"},
		"the one door to what is on the disk"},
	{"replica/boltlog", []string{"internal/faultpoint", "replica/wal", "replica/disk"}, "it keeps a log and votes and does not read them"},
	{"replica/wal", []string{"replica/disk"}, "it keeps entries that wait for a store and does not read them"},
	{"replica/snapshots", []string{"internal/faultpoint", "replica/disk", "replica/raftlogger"}, "a snapshot is bytes; their meaning is the state's"},
	{"replica/disk", []string{"internal/faultpoint"}, "it writes files and does not read them"},
	{"replica/raftlogger", nil, "it logs the library's lines, from any part of it"},
	{"replica/msglimit", nil, "it bounds what a decoder may allocate, for any user"},
	{"replica/peerconn", []string{"internal/dial"}, "it accepts a connection, for any protocol"},
	{"replica/events", []string{"replica/state"}, "events are made of changes of the state only"},
	{"replica/deadlock", []string{"replica/state"}, "waits are read from the state only"},
	{"replica/state", []string{"replica/state/internal/btree", "replica/state/access"}, "the state is a pure function of the log"},
	{"replica/state/access", []string{"replica/state/internal/btree"}, "a right is decided from the rules only"},
	{"replica/state/internal/btree", nil, "a tree holds values of any type"},
	{"replica/admission", nil, "membership is decided from what the replica knows only"},
	{"replica/membership", nil, "words about a cell, without the library that runs it"},
	{"lease", nil, "the arithmetic of time uses nothing that reads a clock"},
	{"internal/...", []string{"internal/...", "lockapi"}, "helpers stand below the packages that they help"},
	{"lockapi", nil, "the contract stands below everything: both sides of the wire import it"},
}

// rooms lists the top folders, the top first. An import of a higher folder
// points up, and ups gives its reason.
var rooms = []string{"test", "cmd", "client", "master", "replica", "lease", "lockapi", "internal"}

var ups = []struct{ from, to, why string }{
	{"lockapi/server", "master", "the server lies beside the contract that it serves; package lockapi does not import it"},
	{"lockapi/server/internal/peers", "lease", "it judges the clocks of the other members by the bound of the lease"},
	{"lockapi/server", "lease", "it shows the lease and the rates of the replicas' clocks"},
	{"internal/backup", "lockapi", "a backup's header is part of the contract; server, SDK and CLI read it"},
	{"internal/identity", "lockapi", "a caller's name follows the contract's rules"},
	{"internal/memlog", "replica", "it stands in for package replica in tests, over the replica's own state"},
	{"internal/memlog", "lease", "as package replica does, it takes note of what it stored and when"},
}

// ban lists imports that a package must not have. With deep it also covers the
// imports of everything that it imports. A pattern that begins with "!"
// excludes the packages that it matches.
type ban struct {
	from []string
	deep bool
	not  []string
	why  string
}

var bans = []ban{
	{[]string{"client/...", "!client/stouttest", "lockapi"}, true,
		[]string{"github.com/gin-gonic/gin", "github.com/hashicorp/raft", "github.com/rs/zerolog"},
		"a program that takes a lock must not be given a web framework, a consensus library and a logger along with it"},
	{[]string{"replica/state/..."}, false,
		[]string{"time", "context", "net/...", "os/...", "syscall", "runtime/...", "unsafe"},
		"two replicas that apply the same log hold the same bytes: no clock, no I/O"},
	{[]string{"replica/state/..."}, false,
		[]string{"math/rand/...", "crypto/rand", "log/...", "sync/...", "hash/maphash"},
		"two replicas that apply the same log hold the same bytes: no randomness, no goroutines, no logging"},
	{[]string{"lease"}, false,
		[]string{"context", "net/...", "os/...", "syscall", "runtime/...", "unsafe", "math/rand/...", "crypto/rand", "log/..."},
		"every method takes the present instant; time is for time.Duration, sync for its mutexes"},
	{[]string{"cmd/..."}, true, []string{module + "test/...", module + "internal/testrun", module + "internal/memlog", module + "client/stouttest", module + "internal/jwttest", "pgregory.net/rapid", "github.com/getkin/kin-openapi/...", "github.com/chromedp/..."},
		"helpers of tests are not shipped"},
	{[]string{"client/...", "lockapi/...", "master/...", "lease", "replica/...", "cmd/..."}, false, []string{"testing/..."},
		"test doubles live in test files; helpers of tests are not shipped"},
	{[]string{"master/...", "replica/membership", "replica/deadlock", "replica/events", "replica/state/...", "replica/admission"}, true,
		[]string{"github.com/hashicorp/...", "go.etcd.io/bbolt"},
		"decisions are made without the library that carries them"},
	{[]string{"cmd/stout/..."}, true, []string{"github.com/gin-gonic/gin", "github.com/hashicorp/raft"},
		"the CLI runs beside the commands that it guards: it stays small"},
	{[]string{"cmd/stout/internal/app", "cmd/stout/internal/survey", "cmd/stout/internal/ui", "cmd/stout/internal/exit", "cmd/stout/internal/format"}, true,
		[]string{module + "cmd/stout/internal/access", module + "cmd/stout/internal/files", module + "cmd/stout/internal/hold", module + "cmd/stout/internal/inspect", module + "cmd/stout/internal/members"},
		"what the commands share knows no command"},
	{[]string{"cmd/stout/internal/survey", "cmd/stout/internal/exit"}, true, []string{module + "cmd/stout/internal/ui", "github.com/spf13/cobra"},
		"a finding does not depend on how it is printed"},
	{[]string{"cmd/...", "!cmd/stout/internal/fakecell"}, true, []string{module + "cmd/stout/internal/fakecell"}, "helpers of tests are not shipped"},
}

// testBans lists what a package's tests must not link either, at any depth.
var testBans = []ban{
	{[]string{"master"}, true, []string{"github.com/hashicorp/...", "go.etcd.io/bbolt", module + "replica", module + "replica/msglimit", module + "replica/peerconn"},
		"an office speaks to a log and to a list of members, and is tested on ones in memory: neither Raft nor a store is needed to decide who holds what"},
}

// standardOnly lists packages that depend only on the standard library and on
// each other.
var standardOnly = []string{"client", "client/admin", "client/internal/bridge", "client/internal/call", "client/internal/decode", "client/internal/timing", "client/internal/wire", "client/fence", "client/recipe", "lockapi", "lease", "internal/backup", "internal/boottime", "internal/dial", "internal/wait"}
