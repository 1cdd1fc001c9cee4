package overlay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// copied returns o with a copy of a module in place of the one that the module
// at root requires, and the copy's directory. The files of a copy may be
// replaced; the go command refuses that for files in its cache.
func (o Overlay) copied(ctx context.Context, root, module string) (Overlay, string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return Overlay{}, "", fmt.Errorf("go list -m %s: %w", module, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Overlay{}, "", err
	}
	from := strings.TrimSpace(string(out))
	if from == "" {
		return Overlay{}, "", fmt.Errorf("the sources of %s are missing: run go mod download", module)
	}
	to := filepath.Join(cache, "stout-overlay", "modules", filepath.Base(from))
	if err := copyOnce(from, to); err != nil {
		return Overlay{}, "", fmt.Errorf("copy %s: %w", module, err)
	}
	copies := maps.Clone(o.copies)
	if copies == nil {
		copies = map[string]string{}
	}
	copies[module] = to
	return Overlay{o.files, copies}, to, nil
}

// copyOnce copies a directory unless the copy exists.
func copyOnce(from, to string) error {
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(filepath.Dir(to), "partial-*")
	if err != nil {
		return err
	}
	err = os.CopyFS(partial, os.DirFS(from))
	if err == nil {
		err = os.Rename(partial, to)
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(partial))
	}
	if errors.Is(err, fs.ErrExist) { // another process was faster
		return nil
	}
	return err
}

// modfile writes the go.mod and go.sum of the module at root with the copies
// added, and returns the name of the first.
func (o Overlay) modfile(root, dir string) (string, error) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return "", err
	}
	for _, module := range slices.Sorted(maps.Keys(o.copies)) {
		mod = fmt.Appendf(mod, "\nreplace %s => %s\n", module, o.copies[module])
	}
	hash := sha256.Sum256(slices.Concat(mod, sums))
	dir = filepath.Join(dir, hex.EncodeToString(hash[:12]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	name := filepath.Join(dir, "go.mod")
	for file, text := range map[string][]byte{name: mod, filepath.Join(dir, "go.sum"): sums} {
		if err := replaceFile(file, text); err != nil {
			return "", err
		}
	}
	return name, nil
}

// replaceFile writes a file atomically, since another build may read it.
func replaceFile(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "partial-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
