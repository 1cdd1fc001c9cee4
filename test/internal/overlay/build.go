package overlay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tag is set in every build with the runtime's overlay. It enables package
// seed.
const Tag = "simulated"

// Build compiles the test program of one package of the module at root through
// the overlay, under the given build tags, into out. Compiling the standard
// library takes minutes the first time. After that the go command's build cache
// has it, and the overlay's files are kept under os.UserCacheDir.
func Build(ctx context.Context, root, out, pkg string, o Overlay, tags ...string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	return o.command(ctx, root, "test", "-c", "-vet=off", "-ldflags=-s -w", "-tags", strings.Join(tags, ","), "-o", out, pkg)
}

// Program builds a program of the module at root through the overlay, into out.
func Program(ctx context.Context, root, out, pkg string, o Overlay, tags ...string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	return o.command(ctx, root, "build", "-tags", strings.Join(tags, ","), "-o", out, pkg)
}

// Compile compiles packages of the module at root through the overlay and keeps
// nothing. The error has the compiler's output.
func Compile(ctx context.Context, root string, o Overlay, tags []string, packages ...string) error {
	return o.command(ctx, root, append([]string{"build", "-tags", strings.Join(tags, ",")}, packages...)...)
}

// command runs the go command with the overlay after its first argument.
func (o Overlay) command(ctx context.Context, root string, args ...string) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("keep the overlay's files: %w", err)
	}
	cache = filepath.Join(cache, "stout-overlay")
	config, err := o.store(cache)
	if err != nil {
		return fmt.Errorf("keep the overlay's files: %w", err)
	}
	with := []string{args[0], "-overlay", config}
	if len(o.copies) > 0 {
		mod, err := o.modfile(root, cache)
		if err != nil {
			return fmt.Errorf("keep the overlay's modules: %w", err)
		}
		with = append(with, "-modfile", mod)
	}
	cmd := exec.CommandContext(ctx, "go", append(with, args[1:]...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "PWD="+root) // the overlay has these names, also through a symbolic link
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, said)
	}
	return nil
}

// store writes the overlay's files and its description into dir. Each name is
// derived from the content, so that equal overlays share files and several
// programs may write at once. It returns the name of the description.
func (o Overlay) store(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	replace := make(map[string]string, len(o.files))
	for name, text := range o.files {
		kept, err := keep(dir, filepath.Base(name), text)
		if err != nil {
			return "", err
		}
		replace[name] = kept
	}
	config, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "  ")
	if err != nil {
		return "", err
	}
	return keep(dir, "overlay.json", config)
}

// keep writes a file with a name that ends in base, unless it exists.
func keep(dir, base string, text []byte) (string, error) {
	sum := sha256.Sum256(text)
	name := filepath.Join(dir, hex.EncodeToString(sum[:12])+"-"+base)
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return name, err
	}
	return name, replaceFile(name, text)
}
