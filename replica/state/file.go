package state

import (
	"cmp"
	"crypto/sha256"
	"iter"
	"strings"
)

// File is the file of a node. It is immutable, and so are the bytes of its content:
// they are those of the log entry that wrote it.
type File struct {
	Path       string `cbor:"1,keyasint"`
	Content    []byte `cbor:"2,keyasint,omitempty"`
	Revision   uint64 `cbor:"3,keyasint"`           // of its last change
	Instance   uint64 `cbor:"4,keyasint"`           // the revision that created it
	Generation uint64 `cbor:"5,keyasint"`           // 1, and one more with each write of this instance
	Session    string `cbor:"6,keyasint,omitempty"` // that it ends with; empty for a permanent one
	CreatedAt  int64  `cbor:"7,keyasint"`           // Unix nanoseconds; never goes back within a cell
	ModifiedAt int64  `cbor:"8,keyasint"`
	Sum        []byte `cbor:"9,keyasint"`            // SHA-256 of Content
	Size       int    `cbor:"10,keyasint,omitempty"` // of Content, also where that is left out
	Principal  string `cbor:"11,keyasint,omitempty"` // who wrote it last; empty where nobody is known
}

// MaxContent bounds the content of a file, in bytes.
const MaxContent = 256 << 10

// FileChanged says that a file was written. Its Generation is 1 where it was made.
type FileChanged struct{ File *File }

// FileDeleted says that a file is gone.
type FileDeleted struct {
	Revision uint64
	File     *File // as it was
	Reason   Reason
	Ending
}

// File finds the file at path.
func (s *State) File(path string) (*File, bool) {
	n, ok := s.nodes.Get(path)
	if !ok || n.File == nil {
		return nil, false
	}
	return n.File, true
}

// FileCount is the number of files.
func (s *State) FileCount() int { return s.files }

// ContentBytes is the number of bytes of content of all files.
func (s *State) ContentBytes() int64 { return s.content }

// Files walks the files whose path has the given plain string prefix and sorts
// after the given path, in bytewise order.
func (s *State) Files(prefix, after string) iter.Seq[*File] {
	return func(yield func(*File) bool) {
		for n := range s.nodesBelow(prefix, after) {
			if n.File != nil && !yield(n.File) {
				return
			}
		}
	}
}

// Ephemeral walks the files that end with a session, in path order.
func (s *State) Ephemeral(session string) iter.Seq[*File] {
	return while(s.ephemeral.From(owned{session: session}), func(f *File) bool { return f.Session == session })
}

// owned is the key of a file by the session that it ends with.
type owned struct{ session, path string }

func (k owned) compare(f *File) int {
	return cmp.Or(strings.Compare(k.session, f.Session), strings.Compare(k.path, f.Path))
}

// putFile stores f, whose revision is new, in place of what is there.
func (e *editor) putFile(f *File) {
	n := e.node(f.Path)
	if old := n.File; old != nil {
		e.disown(old)
		e.content -= int64(len(old.Content))
	} else {
		e.files++
	}
	e.content += int64(len(f.Content))
	f.Path = n.Path // one string for all at a path
	n.File = f
	if f.Session != "" {
		e.ephemeral.Put(owned{f.Session, f.Path}, f)
	}
	e.putNode(n)
}

// dropFile deletes the file of a node that has one.
func (e *editor) dropFile(f *File, why Reason) {
	n := e.node(f.Path)
	e.disown(f)
	e.files--
	e.content -= int64(len(f.Content))
	n.File = nil
	e.putNode(n)
	e.record(FileDeleted{Revision: e.nextRevision(), File: f, Reason: why, Ending: e.ending()})
}

func (e *editor) disown(f *File) {
	if f.Session != "" {
		e.ephemeral.Delete(owned{f.Session, f.Path})
	}
}

// soundFile reports whether a content and its sum are what a file can have.
func soundFile(content, sum []byte) bool {
	return len(content) <= MaxContent && len(sum) == sha256.Size
}
