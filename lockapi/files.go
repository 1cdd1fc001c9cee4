package lockapi

import "time"

// RouteFiles is the route of files. A file's path follows it directly.
const RouteFiles = "/v1/files"

// Bounds of files.
const (
	MaxFileBytes        = 256 << 10 // content of a file, in bytes
	MaxSequencers       = 8         // sequencers that guard one write
	MaxFilesDeleted     = 10_000    // files deleted by one DELETE with a prefix
	SequentialDigits    = 16        // digits of the revision in the name of a sequential file
	MaxRememberedAnswer = 64 << 10  // bytes of a keyed write's answer
)

// Headers for files.
const (
	HeaderRevision   = "Stout-Revision"   // reply to a read: it reflects exactly the changes up to this revision
	HeaderInstance   = "Stout-Instance"   // instance of the file
	HeaderGeneration = "Stout-Generation" // generation of the file
	HeaderSession    = "Stout-Session"    // session of an ephemeral file
	HeaderReplayed   = "Stout-Replayed"   // "true" if an earlier answer is repeated
)

// FileStat describes a file without its content.
type FileStat struct {
	Path       string    `json:"path"`
	Revision   uint64    `json:"revision"`          // revision of the last change
	Instance   uint64    `json:"instance"`          // revision of the creation
	Generation uint64    `json:"generation"`        // counts the writes of this instance, from 1
	Size       int       `json:"size"`              // in bytes
	SHA256     string    `json:"sha256"`            // hexadecimal
	Session    string    `json:"session,omitempty"` // session of an ephemeral file
	CreatedAt  time.Time `json:"created_at"`
	ModifiedAt time.Time `json:"modified_at"`
	Principal  string    `json:"principal,omitempty"` // last writer; empty for an anonymous one
}

// File is a file as JSON: its stat, and its content in one of two fields.
type File struct {
	FileStat
	Content       *string `json:"content,omitempty"`        // if it is valid UTF-8
	ContentBase64 []byte  `json:"content_base64,omitempty"` // otherwise
}

// Bytes returns the content from either field, or nil without content. The
// caller must not modify it.
func (f *File) Bytes() []byte {
	if f.Content != nil {
		return []byte(*f.Content)
	}
	return f.ContentBase64
}

// FileList is a page of files in bytewise order of their paths. Dirs are the
// directories that stand for deeper paths.
type FileList struct {
	Files []File   `json:"files"`
	Dirs  []string `json:"dirs"`
	Next  string   `json:"next,omitempty"`
}

// FilesDeleted is the answer to a deletion. Deleted is a number for a deletion
// by prefix, otherwise whether the file existed.
type FilesDeleted struct {
	Deleted  any    `json:"deleted"`
	Revision uint64 `json:"revision,omitempty"`
}

// ValidatePrefix reports an invalid directory in a deletion by prefix, or nil.
func ValidatePrefix(prefix string) error {
	if len(prefix) < 2 || prefix[len(prefix)-1] != '/' {
		return Invalid("prefix", "prefix %q is invalid; it must name a directory below the root and end in %q", Clip(prefix), "/")
	}
	return named("prefix", ValidatePath(prefix[:len(prefix)-1]))
}
