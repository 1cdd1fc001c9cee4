package lockapi

import "time"

// RouteFiles is the route of files. A file's path follows it directly.
const RouteFiles = "/v1/files"

// Bounds of files.
const (
	MaxFileBytes        = 256 << 10 // content of a file
	MaxSequencers       = 8         // that guard one write
	MaxFilesDeleted     = 10_000    // by one DELETE by prefix
	SequentialDigits    = 16        // of the revision in the name of a sequential file
	MaxRememberedAnswer = 64 << 10  // of a keyed write
)

// Headers of files.
const (
	HeaderRevision   = "Stout-Revision"   // reply to a read: all changes up to it, and none after
	HeaderInstance   = "Stout-Instance"   // of a file
	HeaderGeneration = "Stout-Generation" // of a file
	HeaderSession    = "Stout-Session"    // of an ephemeral file
	HeaderReplayed   = "Stout-Replayed"   // "true" where an earlier answer is given again
)

// FileStat describes a file without its content.
type FileStat struct {
	Path       string    `json:"path"`
	Revision   uint64    `json:"revision"`          // of its last change
	Instance   uint64    `json:"instance"`          // the revision that created it
	Generation uint64    `json:"generation"`        // 1, and one more with each write of this instance
	Size       int       `json:"size"`              // bytes
	SHA256     string    `json:"sha256"`            // hexadecimal
	Session    string    `json:"session,omitempty"` // that it ends with
	CreatedAt  time.Time `json:"created_at"`
	ModifiedAt time.Time `json:"modified_at"`
	Principal  string    `json:"principal,omitempty"` // who wrote it last; empty where nobody is known
}

// File is a file as JSON: its stat, and its content in one of two ways.
type File struct {
	FileStat
	Content       *string `json:"content,omitempty"`        // where it is valid UTF-8
	ContentBase64 []byte  `json:"content_base64,omitempty"` // else
}

// Bytes is the content, in whichever way it is there; nil where it is not. It is
// not to be changed.
func (f *File) Bytes() []byte {
	if f.Content != nil {
		return []byte(*f.Content)
	}
	return f.ContentBase64
}

// FileList is a page of files in bytewise order of their paths, and of the
// directories that roll up what lies deeper.
type FileList struct {
	Files []File   `json:"files"`
	Dirs  []string `json:"dirs"`
	Next  string   `json:"next,omitempty"`
}

// FilesDeleted is the answer to a deletion. Of more than one file Deleted is the
// number, else whether there was one.
type FilesDeleted struct {
	Deleted  any    `json:"deleted"`
	Revision uint64 `json:"revision,omitempty"`
}

// ValidatePrefix reports what is wrong with the directory of a deletion by prefix.
func ValidatePrefix(prefix string) error {
	if len(prefix) < 2 || prefix[len(prefix)-1] != '/' {
		return Invalid("prefix", "prefix %q does not end in %q below the root; it names a directory", Clip(prefix), "/")
	}
	if err := ValidatePath(prefix[:len(prefix)-1]); err != nil {
		e := err.(*Error)
		e.Field = "prefix"
		return e
	}
	return nil
}
