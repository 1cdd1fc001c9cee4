// Package page has the files of the page that shows a cell to people in a browser:
// plain modules of JavaScript, a style sheet and a document, as they are written.
// There is no build step.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"path"
)

// Document is the name of the document that a browser begins with; it is found by
// the empty name as well.
const Document = "index.html"

//go:embed files
var files embed.FS

// File is one file. It is not to be changed.
type File struct {
	Content []byte
	Type    string // as the header Content-Type has it
	ETag    string // with its quotation marks; it goes with the content
}

// Find looks a file up by its name, which is no path.
func Find(name string) (File, bool) {
	if name == "" {
		name = Document
	}
	f, ok := all[name]
	return f, ok
}

// Names are those of all files, in no particular order.
func Names() []string {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	return names
}

// types are the media types by the end of a name. A file of another kind has none
// and is no part of the page.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

var all = read()

// read reads what is embedded, which cannot fail.
func read() map[string]File {
	found := map[string]File{}
	entries, err := files.ReadDir("files")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		content, err := fs.ReadFile(files, path.Join("files", e.Name()))
		if err != nil {
			panic(err)
		}
		if kind := types[path.Ext(e.Name())]; kind != "" {
			sum := sha256.Sum256(content)
			found[e.Name()] = File{content, kind, `"` + hex.EncodeToString(sum[:16]) + `"`}
		}
	}
	return found
}
