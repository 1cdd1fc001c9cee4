package master

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// counted is a state's files, and counts how many were walked.
type counted struct {
	paths   []string // sorted
	visited int
}

func (c *counted) Files(prefix, after string) iter.Seq[*state.File] {
	return func(yield func(*state.File) bool) {
		i, there := slices.BinarySearch(c.paths, max(prefix, after))
		if there && c.paths[i] == after {
			i++
		}
		for ; i < len(c.paths) && strings.HasPrefix(c.paths[i], prefix); i++ {
			c.visited++
			if !yield(&state.File{Path: c.paths[i], Revision: 1}) {
				return
			}
		}
	}
}

// TestPagesLeapOverDirectories: files below a rolled-up directory are not
// walked, and no other file is left out, wherever a page ends.
func TestPagesLeapOverDirectories(t *testing.T) {
	files := &counted{}
	for i := range 1000 {
		files.paths = append(files.paths, fmt.Sprintf("/a/b/%03d", i), fmt.Sprintf("/a/\U0010ffff/%03d", i), fmt.Sprintf("/a/z/z/%03d", i))
	}
	files.paths = append(files.paths, "/a", "/a/b", "/a/b!", "/a/b0", "/a/z", "/a0", "/c/d")
	slices.Sort(files.paths)
	for _, c := range []struct {
		prefix string
		want   string
	}{
		{"/a/", "/a/b /a/b! /a/b/ /a/b0 /a/z /a/z/ /a/\U0010ffff/"},
		{"/a", "/a /a/ /a0"},
		{"/", "/a /a/ /a0 /c/"},
		{"", "/a /a/ /a0 /c/"},
		{"/a/b", "/a/b /a/b! /a/b/ /a/b0"},
		{"/a/b/99", "/a/b/990 /a/b/991 /a/b/992 /a/b/993 /a/b/994 /a/b/995 /a/b/996 /a/b/997 /a/b/998 /a/b/999"},
		{"/x", ""},
	} {
		for limit := 1; limit <= 12; limit++ {
			files.visited = 0
			var got []string
			for after := ""; ; {
				page := filePage{Prefix: c.prefix, After: after, Delimiter: true, Limit: limit}.of(files)
				one := page.Dirs
				for _, f := range page.Files {
					one = append(one, f.Path)
				}
				slices.Sort(one)
				if got = append(got, one...); len(one) > limit || page.Next == "" {
					break
				}
				after = page.Next
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("prefix %q, %d a page: %q, want %q", c.prefix, limit, got, c.want)
			}
			if most := 3*len(got) + 3; files.visited > most {
				t.Errorf("prefix %q, %d a page: %d files are visited for %d entries, want at most %d", c.prefix, limit, files.visited, len(got), most)
			}
		}
	}
	if page := (filePage{Prefix: "/a/", After: "/a/b/500", Delimiter: true, Limit: 2}).of(files); !slices.Equal(page.Dirs, []string{}) || len(page.Files) != 2 || page.Next != "/a/z" {
		t.Errorf("from within a directory: %+v", page)
	}
	if page := (filePage{Limit: lockapi.MaxListLimit}).of(files); len(page.Files) != lockapi.MaxListLimit {
		t.Errorf("without a delimiter: %d files", len(page.Files))
	}
}
