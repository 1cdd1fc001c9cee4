package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// reimported is o with one import of a package's files replaced by another,
// under its old name. Where it names files, they are those. It fails where one
// of those, or all of the directory, do not have the import.
func (o Overlay) reimported(dir, was, is string, files ...string) (Overlay, error) {
	named := len(files) > 0
	if !named {
		all, err := os.ReadDir(dir)
		if err != nil {
			return Overlay{}, err
		}
		for _, e := range all {
			if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") {
				files = append(files, e.Name())
			}
		}
	}
	line, found := strconv.Quote(was)+"\n", 0
	for _, file := range files {
		next, err := o.substitute(filepath.Join(dir, file), "\t"+line, "\t"+filepath.Base(was)+" "+strconv.Quote(is)+"\n")
		switch {
		case err == nil:
			o, found = next, found+1
		case named:
			return Overlay{}, err
		}
	}
	if found == 0 {
		return Overlay{}, fmt.Errorf("no file in %s imports %q", dir, was)
	}
	return o, nil
}
