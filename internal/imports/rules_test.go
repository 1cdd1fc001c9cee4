package imports

// module is the path that all packages of the project begin with.
const module = "github.com/stoutlock/stout/"

// arrow says which packages of the project a package may import. A pattern
// that ends in "/..." stands for everything below as well.
type arrow struct {
	from string
	to   []string
	why  string
}

// arrows is the shape of docs/design.md: cmd → lockapi/server → master →
// (replica, lease, lockapi); replica → replica/state; client → lockapi. The
// first entry that matches a package counts; one that matches none is an error.
var arrows = []arrow{
	{"lockapi", nil, "the contract stands below everything: both sides of the wire import it"},
	{"lockapi/server", []string{"lockapi", "master", "lease", "internal/audit", "internal/backup", "internal/buildinfo", "internal/histogram", "internal/identity", "internal/browser", "internal/throttle", "internal/page", "lockapi/server/internal/wire"},
		"HTTP binds, calls the master, and writes; it knows nothing of the log"},
	{"lockapi/server/internal/wire", nil, "it carries requests and replies, whatever they say"},
	{"master", []string{"internal/faultpoint", "replica/membership", "replica/deadlock", "replica/events", "replica/state", "replica/state/access", "replica/admission", "lease", "lockapi", "internal/wait", "internal/histogram", "internal/progress"},
		"an office is tested without HTTP and without Raft; it asks for the parts of a replica that it needs"},
	{"lease", nil, "the arithmetic of time depends on nothing that reads a clock"},
	{"replica", []string{"internal/faultpoint", "replica/membership", "replica/events", "replica/state", "replica/admission", "replica/peerconn", "replica/datadir", "replica/raftstore", "replica/rafttransport", "replica/raftlogger", "lease", "internal/wait", "internal/boottime", "internal/dial", "internal/histogram", "internal/throttle", "internal/progress"},
		"a member of the cell knows nothing of sessions' calls, nor of who is master; what is on the disk it has from the data directory"},
	{"replica/raftstore", []string{"internal/faultpoint", "replica/datadir", "lease", "internal/histogram"},
		"what the library stores is put right, wherever it is kept"},
	{"replica/rafttransport", []string{"internal/faultpoint", "replica/raftstore", "replica/admission", "replica/membership", "replica/msglimit", "replica/raftlogger"},
		"what the library sends is put right, however it travels"},
	{"replica/datadir", []string{"replica/admission", "replica/boltlog", "replica/snapshots", "replica/disk"},
		"the one door to what is on the disk"},
	{"replica/boltlog", []string{"internal/faultpoint", "replica/wal", "replica/disk"}, "a log and votes, whatever they are of"},
	{"replica/wal", []string{"replica/disk"}, "entries that wait for a store, whichever it is"},
	{"replica/snapshots", []string{"internal/faultpoint", "replica/disk", "replica/raftlogger"}, "a snapshot has bytes; of what is the state's business"},
	{"replica/disk", []string{"internal/faultpoint"}, "files and names, whatever is in them"},
	{"replica/raftlogger", nil, "lines of the library, whichever part says them"},
	{"replica/state", []string{"replica/state/internal/btree", "replica/state/access"}, "the state is a pure function of the log"},
	{"replica/state/access", []string{"replica/state/internal/btree"}, "who may do what is decided from what is known, and nothing else"},
	{"replica/events", []string{"replica/state"}, "events are made of what was done to the state, and of nothing else"},
	{"replica/deadlock", []string{"replica/state"}, "who waits for whom is read from the state, and from nothing else"},
	{"replica/membership", []string{"internal/histogram"}, "what is said of a cell is said without the library that runs it"},
	{"replica/admission", nil, "who is a member is decided from what is known, and nothing else"},
	{"replica/msglimit", nil, "what is to be decoded is bounded by what the library sends, whoever uses it"},
	{"replica/peerconn", []string{"internal/dial"}, "a connection is judged by whoever it is for"},
	{"replica/state/internal/btree", nil, "a tree of values, whatever they are"},
	{"client", []string{"lockapi", "internal/backup", "internal/boottime", "internal/dial", "client/internal/wire"},
		"who uses the SDK gets the contract and nothing of the server"},
	{"client/internal/wire", nil, "it carries bytes, whatever they say"},
	{"client/stouttest", []string{"client", "lockapi", "lockapi/server", "master", "replica/state", "internal/memlog", "lease"},
		"a cell for tests is the server's own layers over a log in memory, and no copy of them"},
	{"client/otelstout", []string{"client", "lockapi"}, "who wants traces gets them by an option of the SDK, and nobody else pays for them"},
	{"client/recipe", []string{"client", "lockapi"}, "a recipe is what a caller could have written: it sees the exported parts only"},
	{"cmd/stoutd", []string{"cmd/stoutd/...", "lockapi", "lockapi/server", "master", "replica", "replica/membership", "replica/disk", "replica/peerconn", "replica/state", "lease", "internal/..."},
		"the server puts the layers together; it does not use its own client"},
	{"cmd/stout/...", []string{"cmd/stout/internal/...", "client", "lockapi", "internal/..."},
		"the CLI is a user of the SDK and of the contract, like any other"},
	{"internal/memlog", []string{"replica/membership", "replica/events", "replica/state", "replica/admission", "lease"},
		"it stands where package replica stands, below an office, without what that links"},
	{"internal/...", []string{"internal/...", "lockapi"}, "helpers stand below those whom they help"},
	{"test/sim/...", []string{"test/...", "client", "lockapi", "lockapi/server", "master", "replica", "replica/membership", "replica/datadir", "replica/state", "replica/state/access", "replica/admission", "replica/rafttransport"},
		"a simulated cell is the server's own layers, put together as command stoutd does"},
	{"test/crash/...", []string{"test/...", "replica/datadir"},
		"what loses its power is the stores of a replica, with nothing around them"},
	{"test/...", []string{"test/...", "client", "lockapi", "internal/..."},
		"a cell under test is seen from outside, through processes and the contract"},
}

// ban says what must not be found among the imports of a package: its own ones,
// or with deep also those of everything that it imports. A pattern that begins
// with "!" excepts the packages that it matches.
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
		"every method takes the instant that it is to be judged at; time is for time.Duration, sync for its mutexes"},
	{[]string{"cmd/..."}, true, []string{module + "test/...", module + "internal/testrun", module + "internal/memlog", module + "client/stouttest", module + "internal/jwttest", "pgregory.net/rapid", "github.com/getkin/kin-openapi/...", "github.com/chromedp/..."},
		"what serves tests is not shipped"},
	{[]string{"client/...", "lockapi/...", "master", "lease", "replica/...", "cmd/..."}, false, []string{"testing/..."},
		"test doubles live in test files; what serves tests is not shipped"},
	{[]string{"master", "replica/membership", "replica/deadlock", "replica/events", "replica/state/...", "replica/admission"}, true,
		[]string{"github.com/hashicorp/...", "go.etcd.io/bbolt"},
		"what is decided, is decided without the library that carries it"},
	{[]string{"cmd/stout/..."}, true, []string{"github.com/gin-gonic/gin", "github.com/hashicorp/raft"},
		"the CLI runs beside the commands that it guards: it stays small"},
}

// testBans say what must not be linked into a package's tests either, at any
// depth.
var testBans = []ban{
	{[]string{"master"}, true, []string{"github.com/hashicorp/...", "go.etcd.io/bbolt", module + "replica", module + "replica/msglimit", module + "replica/peerconn"},
		"an office speaks to a log and to a list of members, and is tested on ones in memory: neither Raft nor a store is needed to decide who holds what"},
}

// standardOnly are the packages whose every dependency is the standard library
// or one of these very packages.
var standardOnly = []string{"client", "client/internal/wire", "client/recipe", "lockapi", "lease", "internal/backup", "internal/boottime", "internal/dial"}
