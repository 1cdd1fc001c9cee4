package powerloss

// Kind says what an Event did.
type Kind int

// Kinds of events, with the fields of Event that they use.
const (
	Write  Kind = iota // Node, Off, Data: a file is being written to
	Resize             // Node, Off: a file is being cut or extended to this many bytes
	Sync               // Node, Began: a sync has ended, which covers what came before Began
	Make               // Node, Dir, Name, IsDir: a file or directory is being made
	Rename             // Node, Dir, Name, To: it is getting another name, in the same directory
	Remove             // Node, Dir, Name: it is losing its name
	Mark               // Mark: something of the caller's
)

// Event is one thing that was done to a disk, told when it begins; of a sync,
// when it has ended.
type Event struct {
	Kind  Kind
	Node  ID
	Off   int64
	Data  []byte
	Began int
	Dir   ID
	Name  string
	To    string
	IsDir bool
	Mark  any
}

// String names a kind.
func (k Kind) String() string {
	return [...]string{"write", "resize", "sync", "make", "rename", "remove", "mark"}[k]
}
