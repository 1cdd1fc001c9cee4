package state

import (
	"cmp"
	"crypto/sha256"
	"iter"
	"strings"
)

// File is the file of a node. It is immutable, and so is its content. The
// content of a large file is part of the bytes of its log entry.
type File struct {
	Path       string `cbor:"1,keyasint"`
	Content    []byte `cbor:"2,keyasint,omitempty"`
	Revision   uint64 `cbor:"3,keyasint"`           // of its last change
	Instance   uint64 `cbor:"4,keyasint"`           // the revision that created it
	Generation uint64 `cbor:"5,keyasint"`           // 1, plus one for each later write of this instance
	Session    string `cbor:"6,keyasint,omitempty"` // the file ends with it; empty for a permanent file
	CreatedAt  int64  `cbor:"7,keyasint"`           // Unix nanoseconds; never goes back within a cell
	ModifiedAt int64  `cbor:"8,keyasint"`
	Sum        []byte `cbor:"9,keyasint"`            // SHA-256 of Content
	Size       int    `cbor:"10,keyasint,omitempty"` // of Content, even if Content is omitted
	Principal  string `cbor:"11,keyasint,omitempty"` // principal of the last write; empty if unknown
	Flags      uint64 `cbor:"12,keyasint,omitempty"` // a number that the writer of a key chose
	Locks      uint64 `cbor:"13,keyasint,omitempty"` // how often a KeyLock has acquired the lock
}

// MaxContent bounds the content of a file, in bytes. That of a key may be
// longer: see MaxKeyValue.
const MaxContent = 256 << 10

// FileChanged reports that a file was written. Its Generation is 1 if the file
// is new.
type FileChanged struct {
	File *File
	Stat *File // File without its content
	// OldPrincipal and OldSize describe the file before the write; they are
	// zero for a new file. The old file itself is not kept: it may be large.
	OldPrincipal string
	OldSize      int
}

// FileDeleted reports that a file was deleted.
type FileDeleted struct {
	Revision uint64
	File     *File // before the deletion
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

// FileCount returns the number of files.
func (s *State) FileCount() int { return s.files }

// ContentBytes returns the total size of all file contents in bytes.
func (s *State) ContentBytes() int64 { return s.content }

// Files walks the files with paths that have the given string prefix and sort
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

// owned is the key of a file by its owning session.
type owned struct{ session, path string }

func (k owned) compare(f *File) int {
	return cmp.Or(strings.Compare(k.session, f.Session), strings.Compare(k.path, f.Path))
}

// putFile stores f, with a new revision, in place of any earlier file.
func (e *editor) putFile(f *File) {
	n := e.node(f.Path)
	if old := n.File; old != nil {
		e.disown(old)
		e.content -= int64(len(old.Content))
	} else {
		e.files++
	}
	e.content += int64(len(f.Content))
	f.Path = n.Path // share one string per path
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

// soundFile reports whether a content and its sum are valid for a file.
func soundFile(content, sum []byte) bool {
	return len(content) <= MaxContent && len(sum) == sha256.Size
}
