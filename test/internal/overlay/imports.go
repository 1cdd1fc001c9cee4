package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// reimported returns o with one import of a package's files replaced by
// another, under its old name. It changes the given files, or all files of the
// directory. It fails if a given file, or every file of the directory, lacks
// the import.
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
