package powerloss

// Kind is the kind of an Event.
type Kind int

// Kinds of events, with the fields of Event that they use.
const (
	Write  Kind = iota // Node, Off, Data: a file is written to
	Resize             // Node, Off: a file is cut or extended to this many bytes
	Sync               // Node, Began: a sync has ended; it covers everything before Began
	Make               // Node, Dir, Name, IsDir: a file or directory is created
	Rename             // Node, Dir, Name, To: it is renamed, within its directory
	Remove             // Node, Dir, Name: its name is removed
	Mark               // Mark: a value of the caller's
)

// Event is one operation on a disk. It is reported when the operation begins; a
// sync is reported when it has ended.
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

// String returns the name of a kind.
func (k Kind) String() string {
	return [...]string{"write", "resize", "sync", "make", "rename", "remove", "mark"}[k]
}
