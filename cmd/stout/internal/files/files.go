// Package files has the commands that read, write and watch files.
package files

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/lockapi"
)

// Commands returns the commands of this package.
func Commands(a *app.App) []app.Command {
	return []app.Command{
		getFile(a), (&putFile{App: a}).command(), (&listFiles{App: a}).command(), removeFile(a),
		(&runTxn{App: a}).command(), (&watchEvents{App: a}).command(), consulCommand(a),
	}
}

func getFile(a *app.App) app.Command {
	raw := false
	return app.Command{
		Use: "get PATH", Short: "Print a file", SuggestFor: "cat read", Complete: a.CompleteFile(), Exits: exit.Reads, Check: app.ValidPath,
		Long: `Prints the content of the file at PATH unchanged; with -o json also its
metadata.

On a terminal, control characters are printed as escapes such as \x1b, because
others may have written the file; --raw prints them unchanged.`,
		Example: `  stout get /app/conf > app.conf
  stout get /app/conf -o json | jq .revision`,
		Flags: func(f *pflag.FlagSet) {
			a.AddStale(f)
			f.BoolVar(&raw, "raw", false, "print control characters unchanged, also on a terminal")
		},
		Run: func(ctx context.Context, args []string) error {
			file, err := a.Client.Get(ctx, args[0], a.ReadOptions()...)
			switch {
			case err != nil:
				return aboutFile(args[0], err)
			case a.UI.JSON:
				return a.UI.Object(jsonFile(&file))
			}
			return a.UI.Content(file.Content, raw)
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

func aboutFile(path string, err error) error {
	refused, ok := errors.AsType[*lockapi.Error](err)
	switch {
	case !ok:
	case refused.Code == lockapi.CodeNotFound && refused.Revision > 0:
		return exit.Errorf(exit.Failed, "%s does not exist", format.Clean(path))
	case refused.Code == lockapi.CodePrecondition && refused.Current == nil:
		return exit.Errorf(exit.Failed, "%s does not exist", format.Clean(path))
	case refused.Code == lockapi.CodePrecondition:
		f := exit.Errorf(exit.Failed, "%s is at revision %d", format.Clean(path), refused.Current.Revision)
		return f.Hint("stout get %s shows the current content", format.Clean(path))
	case refused.Code == lockapi.CodeOutcomeUnknown:
		return exit.Errorf(exit.Unknown, "%s", format.Clean(refused.Detail)).Hint("the write may or may not be done; check with stout get %s", format.Clean(path))
	}
	return err
}

type listFiles struct {
	*app.App
	all, tree bool
}

func (c *listFiles) command() app.Command {
	return app.Command{
		Run: c.run,
		Use: "ls [PATH]", Short: "List the files in a directory", SuggestFor: "files dir tree", Complete: c.CompleteFile(), Exits: exit.Reads, Unlimited: true,
		Long: `Lists the directory PATH, or the root: its files, and its subdirectories, which
exist while files are below them. With --all it lists all files below PATH, with
--tree as a tree. If PATH is a file, it lists that file.`,
		Example: `  stout ls
  stout ls /app --tree`,
		Flags: func(f *pflag.FlagSet) {
			c.AddStale(f)
			f.BoolVarP(&c.all, "all", "a", false, "list all files below the directory, at any depth")
			f.BoolVar(&c.tree, "tree", false, "show all files below the directory as a tree")
		},
	}
}

func (c *listFiles) run(ctx context.Context, args []string) error {
	dir, file := "/", ""
	if len(args) == 1 && args[0] != "/" {
		path := strings.TrimSuffix(args[0], "/")
		if err := app.ValidPath(path); err != nil {
			return err
		}
		if dir = path + "/"; path == args[0] {
			file = path
		}
	}
	entries, err := c.entries(ctx, dir)
	if err == nil && len(entries) == 0 && file != "" {
		ctx, cancel := c.WithTimeout(ctx)
		defer cancel()
		entries, err = c.entry(ctx, file)
	}
	return ui.Answer(c.UI, fileList(entries), err, func(lockapi.FileList) {
		switch {
		case len(entries) == 0:
			c.UI.Note("there is no file%s below %s", c.Collector().IfLimited(ctx, " that you may read"), format.Clean(dir))
		case c.tree && strings.HasPrefix(entries[0].Path, dir):
			c.showTree(dir, entries)
		default:
			c.UI.Table([]ui.Column{
				ui.Path(), ui.Right("BYTES"), ui.Right("REVISION").Drop(1), ui.Right("WRITTEN").Drop(3), ui.Right("AGE"), ui.Left("ENDS WITH").Drop(2),
			}, ui.Rows(entries, func(e client.DirEntry) []string {
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
	opts := c.ReadOptions()
	if !c.all && !c.tree {
		return app.CollectPages(ctx, c.App, func(ctx context.Context) iter.Seq2[client.DirEntry, error] {
			return c.Client.ReadDir(ctx, dir, opts...)
		})
	}
	files, err := app.CollectPages(ctx, c.App, func(ctx context.Context) iter.Seq2[client.File, error] {
		return c.Client.List(ctx, dir, opts...)
	})
	out := make([]client.DirEntry, len(files))
	for i := range files {
		out[i] = client.DirEntry{Path: files[i].Path, File: &files[i]}
	}
	return out, err
}

// entry returns a file as a list entry, or no entry if it does not exist.
func (c *listFiles) entry(ctx context.Context, path string) ([]client.DirEntry, error) {
	file, err := c.Client.Get(ctx, path, c.ReadOptions()...)
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
	c.UI.Printf("%s\n", format.Clean(dir))
	var above []string
	for _, e := range files {
		parts := strings.Split(strings.TrimPrefix(e.Path, dir), "/")
		parents := parts[:len(parts)-1]
		same := 0
		for same < min(len(above), len(parents)) && above[same] == parents[same] {
			same++
		}
		for depth := same; depth < len(parents); depth++ {
			c.UI.Printf("%s%s/\n", strings.Repeat("  ", depth+1), format.Clean(parents[depth]))
		}
		c.UI.Printf("%s%s  %s\n", strings.Repeat("  ", len(parts)), format.Clean(parts[len(parts)-1]), c.UI.Out.Faint(format.Plural(e.File.Size, "byte")))
		above = slices.Clone(parents)
	}
}

func removeFile(a *app.App) app.Command {
	var (
		revision uint64
		all      bool
	)
	return app.Command{
		Use: "rm PATH", Short: "Delete a file, or all files below a directory", SuggestFor: "delete remove unlink", Complete: a.CompleteFile(),
		Long: `Deletes the file at PATH. With --all it deletes all files below the directory
PATH in one change, at most 10000.`,
		Exits: exit.ChangeExits("deleted", "there was no file, or the cell refused"),
		Example: `  stout rm /app/conf
  stout rm --all /app`,
		Flags: func(f *pflag.FlagSet) {
			f.Uint64Var(&revision, "if-revision", 0, "delete only if the file is at this `revision`")
			f.BoolVarP(&all, "all", "a", false, "delete all files below the directory")
		},
		Run: func(ctx context.Context, args []string) (err error) {
			path := strings.TrimSuffix(args[0], "/")
			if err := app.ValidPath(path); err != nil {
				return err
			}
			var opts []client.WriteOption
			switch conditional := a.Given("if-revision"); {
			case path != args[0] && !all:
				return exit.Usagef("%s is a directory", format.Clean(args[0])).Hint("stout rm --all %s deletes all files below it", format.Clean(args[0]))
			case all && conditional:
				return exit.Usagef("--if-revision and --all exclude each other")
			case conditional:
				opts = append(opts, client.IfRevision(revision))
			}
			n, revision, none := 0, uint64(0), format.Clean(path)+" does not exist"
			if all {
				none = "there is no file below " + format.Clean(path) + "/"
				n, revision, err = a.Client.DeleteBelow(ctx, path+"/", opts...)
			} else if revision, err = a.Client.Delete(ctx, path, opts...); revision > 0 {
				n = 1
			}
			switch {
			case err != nil:
				return aboutFile(path, err)
			case a.UI.JSON && all:
				err = a.UI.Object(lockapi.FilesDeleted{Deleted: n, Revision: revision})
			case a.UI.JSON:
				err = a.UI.Object(lockapi.FileDeleted{Deleted: n > 0, Revision: revision})
			case all && n > 0:
				a.UI.Printf("deleted %s below %s/\n", format.Plural(n, "file"), format.Clean(path))
			case n > 0:
				a.UI.Printf("deleted %s\n", format.Clean(path))
			}
			if err == nil && n == 0 {
				return &exit.Failure{Code: exit.Failed, Message: none, Quiet: true}
			}
			return err
		},
	}
}
