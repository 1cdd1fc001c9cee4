package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

func (a *app) getCommand() *cobra.Command {
	var stale, raw bool
	cmd := &cobra.Command{
		Use:   "get PATH",
		Short: "Print a file",
		Long: `Prints the content of the file at PATH as it is; with -o json its stat as well.

On a terminal, what that would obey rather than show (others may have written
the file) is printed as an escape, such as \x1b; --raw prints it as it is.

` + exitHelp,
		Example: `  stout get /app/conf > app.conf
  stout get /app/conf -o json | jq .revision`,
		SuggestFor:        []string{"cat", "read"},
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := validPath(args[0]); err != nil {
				return err
			}
			return a.get(cmd.Context(), args[0], raw, readOptions(stale))
		},
	}
	addStale(cmd, &stale)
	cmd.Flags().BoolVar(&raw, "raw", false, "print the content as it is also on a terminal, whatever it does to that")
	return cmd
}

func (a *app) get(ctx context.Context, path string, raw bool, opts []client.ReadOption) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	file, err := a.client.Get(ctx, path, opts...)
	if err != nil {
		return aboutFile(path, err)
	}
	if a.ui.json {
		return a.ui.object(jsonFile(&file))
	}
	return a.ui.content(file.Content, raw)
}

// jsonFile is a file as the API shows it.
func jsonFile(f *client.File) lockapi.File {
	out := lockapi.File{FileStat: f.FileStat}
	if text := string(f.Content); f.Content != nil && utf8.Valid(f.Content) {
		out.Content = &text
	} else {
		out.ContentBase64 = f.Content
	}
	return out
}

// aboutFile puts into words what is wrong with a file, rather than with the
// call.
func aboutFile(path string, err error) error {
	refused, ok := errors.AsType[*lockapi.Error](err)
	switch {
	case !ok:
	case refused.Code == lockapi.CodeNotFound && refused.Revision > 0:
		return &failure{code: exitFailed, message: "there is no file " + clean(path)}
	case refused.Code == lockapi.CodePrecondition && refused.Current == nil:
		return &failure{code: exitFailed, message: "there is no file " + clean(path)}
	case refused.Code == lockapi.CodePrecondition:
		f := &failure{code: exitFailed, message: fmt.Sprintf("%s is at revision %d", clean(path), refused.Current.Revision)}
		return f.hint("stout get %s shows what was written meanwhile", clean(path))
	case refused.Code == lockapi.CodeOutcomeUnknown:
		return (&failure{code: exitUnknown, message: clean(refused.Detail)}).hint("it may or may not be done; stout get %s shows", clean(path))
	}
	return err
}

func (a *app) lsCommand() *cobra.Command {
	var stale, all, tree bool
	cmd := &cobra.Command{
		Use:   "ls [PATH]",
		Short: "List the files in a directory",
		Long: `Lists what lies in the directory PATH (the root without it): files with their
stats, and directories, which are implied by the files below them. With --all it
lists all files below, with --tree as a tree. A PATH below which there is
nothing may be a file: then it lists that.

` + exitHelp,
		Example: `  stout ls
  stout ls /app --tree`,
		SuggestFor:        []string{"files", "dir", "tree"},
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeFile,
		RunE: func(cmd *cobra.Command, args []string) error {
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
			return a.ls(cmd.Context(), dir, file, all || tree, tree, readOptions(stale))
		},
	}
	addStale(cmd, &stale)
	cmd.Flags().BoolVarP(&all, "all", "a", false, "list all files below, not only those in the directory itself")
	cmd.Flags().BoolVar(&tree, "tree", false, "show all files below as a tree")
	return cmd
}

// ls lists a directory, or else, if it has a name, the file.
func (a *app) ls(ctx context.Context, dir, file string, all, tree bool, opts []client.ReadOption) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	entries, err := a.entries(ctx, dir, all, opts)
	if err == nil && len(entries) == 0 && file != "" {
		entries, err = a.entry(ctx, file, opts)
	}
	switch {
	case err != nil:
		return err
	case a.ui.json:
		return a.ui.object(fileList(entries))
	case len(entries) == 0:
		a.ui.note("there is no file%s below %s", a.thatMayBeRead(ctx, " that you may read"), clean(dir))
		return nil
	case tree && strings.HasPrefix(entries[0].Path, dir):
		a.showTree(dir, entries)
		return nil
	}
	rows := make([][]string, len(entries))
	for i, e := range entries {
		if e.File == nil {
			rows[i] = []string{clean(e.Path), "-", "-", "-", "-", ""}
			continue
		}
		rows[i] = []string{
			clean(e.Path), fmt.Sprint(e.File.Size), fmt.Sprint(e.File.Revision), fmt.Sprint(e.File.Generation),
			since(e.File.ModifiedAt), clean(e.File.Session),
		}
	}
	a.ui.table([]column{
		left("PATH"), right("BYTES"), right("REVISION").sparing(1), right("WRITTEN").sparing(3), right("AGE"), left("ENDS WITH").sparing(2),
	}, rows)
	return nil
}

func (a *app) entries(ctx context.Context, dir string, all bool, opts []client.ReadOption) ([]client.DirEntry, error) {
	if !all {
		return collect(a.client.ReadDir(ctx, dir, opts...))
	}
	files, err := collect(a.client.List(ctx, dir, opts...))
	out := make([]client.DirEntry, len(files))
	for i := range files {
		out[i] = client.DirEntry{Path: files[i].Path, File: &files[i]}
	}
	return out, err
}

// entry is a file as an entry of a list; none where there is none.
func (a *app) entry(ctx context.Context, path string, opts []client.ReadOption) ([]client.DirEntry, error) {
	file, err := a.client.Get(ctx, path, opts...)
	refused, ok := errors.AsType[*lockapi.Error](err)
	switch {
	case err == nil:
		return []client.DirEntry{{Path: file.Path, File: &file}}, nil
	case ok && refused.Code == lockapi.CodeNotFound && refused.Revision > 0:
		return nil, nil
	}
	return nil, err
}

// fileList is a list as the API shows it.
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

// showTree shows files, which are in the order of their paths, below their
// directories.
func (a *app) showTree(dir string, files []client.DirEntry) {
	a.ui.printf("%s\n", clean(dir))
	var above []string
	for _, e := range files {
		parts := strings.Split(strings.TrimPrefix(e.Path, dir), "/")
		parents := parts[:len(parts)-1]
		same := 0
		for same < min(len(above), len(parents)) && above[same] == parents[same] {
			same++
		}
		for depth := same; depth < len(parents); depth++ {
			a.ui.printf("%s%s/\n", strings.Repeat("  ", depth+1), clean(parents[depth]))
		}
		a.ui.printf("%s%s  %s\n", strings.Repeat("  ", len(parts)), clean(parts[len(parts)-1]), a.ui.out.dim.Render(plural(e.File.Size, "byte")))
		above = slices.Clone(parents)
	}
}

func (a *app) rmCommand() *cobra.Command {
	var revision uint64
	var all bool
	cmd := &cobra.Command{
		Use:   "rm PATH",
		Short: "Delete a file, or all files below a directory",
		Long: `Deletes the file at PATH; with --all all files below the directory PATH, as one
change, of at most 10000 files.

Exit codes: 0 deleted, 1 there was none, or the cell said no, 2 wrong usage, 3
the cell has no master, 4 no replica can be reached, 6 it is not known whether
it is done.`,
		Example: `  stout rm /app/conf
  stout rm --all /app`,
		SuggestFor:        []string{"delete", "remove", "unlink"},
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			path := strings.TrimSuffix(args[0], "/")
			if err := validPath(path); err != nil {
				return err
			}
			if path != args[0] && !all {
				return usagef("%s is a directory", clean(args[0])).hint("stout rm --all %s deletes what lies below it", clean(args[0]))
			}
			if all && cmd.Flags().Changed("if-revision") {
				return usagef("--if-revision is about one file, and --all about many")
			}
			var opts []client.WriteOption
			if cmd.Flags().Changed("if-revision") {
				opts = append(opts, client.IfRevision(revision))
			}
			return a.rm(cmd.Context(), path, all, opts)
		},
	}
	cmd.Flags().Uint64Var(&revision, "if-revision", 0, "only if the file is at this `revision`")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "all files below the directory")
	return cmd
}

func (a *app) rm(ctx context.Context, path string, all bool, opts []client.WriteOption) error {
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	n, revision, what := 0, uint64(0), "file "+clean(path)
	var err error
	if all {
		what = "file below " + clean(path) + "/"
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
		a.ui.printf("deleted %s below %s/\n", plural(n, "file"), clean(path))
	case n > 0:
		a.ui.printf("deleted %s\n", clean(path))
	}
	if err == nil && n == 0 {
		return &failure{code: exitFailed, message: "there is no " + what, expected: true}
	}
	return err
}
