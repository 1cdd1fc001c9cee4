package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) getFile() command {
	raw := false
	return command{
		use: "get PATH", short: "Print a file", like: "cat read", words: a.completeFile(), exits: reads, check: validPath,
		long: `Prints the content of the file at PATH unchanged; with -o json also its
metadata.

On a terminal, control characters are printed as escapes such as \x1b, because
others may have written the file; --raw prints them unchanged.`,
		example: `  stout get /app/conf > app.conf
  stout get /app/conf -o json | jq .revision`,
		flags: func(f *pflag.FlagSet) {
			a.addStale(f)
			f.BoolVar(&raw, "raw", false, "print control characters unchanged, also on a terminal")
		},
		run: func(ctx context.Context, args []string) error {
			file, err := a.client.Get(ctx, args[0], a.readOptions()...)
			switch {
			case err != nil:
				return aboutFile(args[0], err)
			case a.ui.json:
				return a.ui.object(jsonFile(&file))
			}
			return a.ui.content(file.Content, raw)
		},
	}
}

// jsonFile returns a file in the form of the API.
func jsonFile(f *client.File) lockapi.File {
	out := lockapi.File{FileStat: f.FileStat}
	if text := string(f.Content); f.Content != nil && utf8.Valid(f.Content) {
		out.Content = &text
	} else {
		out.ContentBase64 = f.Content
	}
	return out
}

// aboutFile rewords an error of a call about a file.
func aboutFile(path string, err error) error {
	refused, ok := errors.AsType[*lockapi.Error](err)
	switch {
	case !ok:
	case refused.Code == lockapi.CodeNotFound && refused.Revision > 0:
		return &failure{code: exitFailed, message: format.Clean(path) + " does not exist"}
	case refused.Code == lockapi.CodePrecondition && refused.Current == nil:
		return &failure{code: exitFailed, message: format.Clean(path) + " does not exist"}
	case refused.Code == lockapi.CodePrecondition:
		f := &failure{code: exitFailed, message: fmt.Sprintf("%s is at revision %d", format.Clean(path), refused.Current.Revision)}
		return f.hint("stout get %s shows the current content", format.Clean(path))
	case refused.Code == lockapi.CodeOutcomeUnknown:
		return (&failure{code: exitUnknown, message: format.Clean(refused.Detail)}).hint("the write may or may not be done; check with stout get %s", format.Clean(path))
	}
	return err
}

type listFiles struct {
	*app
	all, tree bool
}

func (a *app) listFiles() command {
	c := &listFiles{app: a}
	return command{
		run: c.run,
		use: "ls [PATH]", short: "List the files in a directory", like: "files dir tree", words: c.completeFile(), exits: reads,
		long: `Lists the directory PATH, or the root: its files, and its subdirectories, which
exist while files are below them. With --all it lists all files below PATH, with
--tree as a tree. If PATH is a file, it lists that file.`,
		example: `  stout ls
  stout ls /app --tree`,
		flags: func(f *pflag.FlagSet) {
			a.addStale(f)
			f.BoolVarP(&c.all, "all", "a", false, "list all files below the directory, at any depth")
			f.BoolVar(&c.tree, "tree", false, "show all files below the directory as a tree")
		},
	}
}

func (c *listFiles) run(ctx context.Context, args []string) error {
	dir, file := "/", ""
	if len(args) == 1 && args[0] != "/" {
		path := strings.TrimSuffix(args[0], "/")
		if err := validPath(path); err != nil {
			return err
		}
		if dir = path + "/"; path == args[0] {
			file = path
		}
	}
	entries, err := c.entries(ctx, dir)
	if err == nil && len(entries) == 0 && file != "" {
		entries, err = c.entry(ctx, file)
	}
	return answer(c.ui, fileList(entries), err, func(lockapi.FileList) {
		switch {
		case len(entries) == 0:
			c.ui.note("there is no file%s below %s", c.thatMayBeRead(ctx, " that you may read"), format.Clean(dir))
		case c.tree && strings.HasPrefix(entries[0].Path, dir):
			c.showTree(dir, entries)
		default:
			c.ui.table([]column{
				pathColumn(), right("BYTES"), right("REVISION").sparing(1), right("WRITTEN").sparing(3), right("AGE"), left("ENDS WITH").sparing(2),
			}, rows(entries, func(e client.DirEntry) []string {
				if e.File == nil {
					return []string{format.Clean(e.Path), "-", "-", "-", "-", ""}
				}
				return []string{
					format.Clean(e.Path), fmt.Sprint(e.File.Size), fmt.Sprint(e.File.Revision), fmt.Sprint(e.File.Generation),
					format.Since(e.File.ModifiedAt), format.Clean(e.File.Session),
				}
			}))
		}
	})
}

func (c *listFiles) entries(ctx context.Context, dir string) ([]client.DirEntry, error) {
	opts := c.readOptions()
	if !c.all && !c.tree {
		return collect(c.client.ReadDir(ctx, dir, opts...))
	}
	files, err := collect(c.client.List(ctx, dir, opts...))
	out := make([]client.DirEntry, len(files))
	for i := range files {
		out[i] = client.DirEntry{Path: files[i].Path, File: &files[i]}
	}
	return out, err
}

// entry returns a file as a list entry, or no entry if it does not exist.
func (c *listFiles) entry(ctx context.Context, path string) ([]client.DirEntry, error) {
	file, err := c.client.Get(ctx, path, c.readOptions()...)
	if refused, ok := errors.AsType[*lockapi.Error](err); ok && refused.Code == lockapi.CodeNotFound && refused.Revision > 0 {
		return nil, nil
	}
	return []client.DirEntry{{Path: file.Path, File: &file}}, err
}

func fileList(entries []client.DirEntry) lockapi.FileList {
	out := lockapi.FileList{Files: []lockapi.File{}, Dirs: []string{}}
	for _, e := range entries {
		if e.File == nil {
			out.Dirs = append(out.Dirs, e.Path)
		} else {
			out.Files = append(out.Files, lockapi.File{FileStat: e.File.FileStat})
		}
	}
	return out
}

// showTree prints files, sorted by path, below their directories.
func (c *listFiles) showTree(dir string, files []client.DirEntry) {
	c.ui.printf("%s\n", format.Clean(dir))
	var above []string
	for _, e := range files {
		parts := strings.Split(strings.TrimPrefix(e.Path, dir), "/")
		parents := parts[:len(parts)-1]
		same := 0
		for same < min(len(above), len(parents)) && above[same] == parents[same] {
			same++
		}
		for depth := same; depth < len(parents); depth++ {
			c.ui.printf("%s%s/\n", strings.Repeat("  ", depth+1), format.Clean(parents[depth]))
		}
		c.ui.printf("%s%s  %s\n", strings.Repeat("  ", len(parts)), format.Clean(parts[len(parts)-1]), c.ui.out.Faint(format.Plural(e.File.Size, "byte")))
		above = slices.Clone(parents)
	}
}

func (a *app) removeFile() command {
	var (
		revision uint64
		all      bool
	)
	return command{
		use: "rm PATH", short: "Delete a file, or all files below a directory", like: "delete remove unlink", words: a.completeFile(),
		long: `Deletes the file at PATH. With --all it deletes all files below the directory
PATH in one change, at most 10000.`,
		exits: changeExits("deleted", "there was no file, or the cell refused"),
		example: `  stout rm /app/conf
  stout rm --all /app`,
		flags: func(f *pflag.FlagSet) {
			f.Uint64Var(&revision, "if-revision", 0, "delete only if the file is at this `revision`")
			f.BoolVarP(&all, "all", "a", false, "delete all files below the directory")
		},
		run: func(ctx context.Context, args []string) (err error) {
			path := strings.TrimSuffix(args[0], "/")
			if err := validPath(path); err != nil {
				return err
			}
			var opts []client.WriteOption
			switch conditional := a.given("if-revision"); {
			case path != args[0] && !all:
				return usagef("%s is a directory", format.Clean(args[0])).hint("stout rm --all %s deletes all files below it", format.Clean(args[0]))
			case all && conditional:
				return usagef("--if-revision and --all exclude each other")
			case conditional:
				opts = append(opts, client.IfRevision(revision))
			}
			n, revision, none := 0, uint64(0), format.Clean(path)+" does not exist"
			if all {
				none = "there is no file below " + format.Clean(path) + "/"
				n, revision, err = a.client.DeleteBelow(ctx, path+"/", opts...)
			} else if revision, err = a.client.Delete(ctx, path, opts...); revision > 0 {
				n = 1
			}
			switch {
			case err != nil:
				return aboutFile(path, err)
			case a.ui.json && all:
				err = a.ui.object(lockapi.FilesDeleted{Deleted: n, Revision: revision})
			case a.ui.json:
				err = a.ui.object(lockapi.FileDeleted{Deleted: n > 0, Revision: revision})
			case all && n > 0:
				a.ui.printf("deleted %s below %s/\n", format.Plural(n, "file"), format.Clean(path))
			case n > 0:
				a.ui.printf("deleted %s\n", format.Clean(path))
			}
			if err == nil && n == 0 {
				return &failure{code: exitFailed, message: none, expected: true}
			}
			return err
		},
	}
}
