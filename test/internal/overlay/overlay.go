package overlay

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Overlay lists the files that a build reads in place of others. The zero value
// replaces nothing. It is immutable.
type Overlay struct {
	files  map[string][]byte // by the absolute name of the replaced file
	copies map[string]string // directories of modules that are built from copies
}

// Edit is a change of one file of the module: Old, which must occur exactly
// once, becomes New.
type Edit struct {
	File string // relative to the module's root, with slashes
	Old  string
	New  string
}

// Mutated returns base with one more edit, of a file of the module at root. It
// fails if Old does not occur exactly once in the file, or equals New.
func Mutated(base Overlay, root string, e Edit) (Overlay, error) {
	if e.Old == "" || e.Old == e.New {
		return Overlay{}, fmt.Errorf("the edit of %s changes nothing", e.File)
	}
	return base.substitute(filepath.Join(root, filepath.FromSlash(e.File)), e.Old, e.New)
}

// read returns a file as the overlay has it.
func (o Overlay) read(name string) ([]byte, error) {
	if text, ok := o.files[name]; ok {
		return text, nil
	}
	return os.ReadFile(name)
}

// substitute returns o with one text of a file replaced, in addition to its
// earlier replacements there.
func (o Overlay) substitute(name, was, is string) (Overlay, error) {
	text, err := o.read(name)
	if err != nil {
		return Overlay{}, err
	}
	switch n := bytes.Count(text, []byte(was)); n {
	case 1:
		return o.with(name, bytes.Replace(text, []byte(was), []byte(is), 1)), nil
	case 0:
		return Overlay{}, fmt.Errorf("%s has no line %s", name, quote(was))
	default:
		return Overlay{}, fmt.Errorf("%s has %d times %s; the edit needs a text that occurs once", name, n, quote(was))
	}
}

// quote returns the first line of a text that is not blank.
func quote(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return strconv.Quote(line)
		}
	}
	return strconv.Quote(text)
}

func (o Overlay) with(name string, text []byte) Overlay {
	files := maps.Clone(o.files)
	if files == nil {
		files = map[string][]byte{}
	}
	files[name] = text
	return Overlay{files, o.copies}
}
