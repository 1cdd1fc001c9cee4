// Package page has the files of the web page that shows a cell: plain
// JavaScript modules, a style sheet and a document, as written. There is no
// build step.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"path"
)

// Document is the name of the initial document; the empty name finds it as
// well.
const Document = "index.html"

//go:embed files
var files embed.FS

// File is one file. Do not change it.
type File struct {
	Content []byte
	Type    string // value of the header Content-Type
	ETag    string // with quotation marks; derived from the content
}

// Find finds a file by its name, which is not a path.
func Find(name string) (File, bool) {
	if name == "" {
		name = Document
	}
	f, ok := all[name]
	return f, ok
}

// Names returns the names of all files, in no particular order.
func Names() []string {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	return names
}

// types maps file extensions to media types. A file with another extension is
// not part of the page.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

var all = read()

// read reads the embedded files, which cannot fail.
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
