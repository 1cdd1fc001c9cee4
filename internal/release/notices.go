package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
)

// licences matches the names of files that must accompany programs built from a
// module.
var licences = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([-.].*)?$`)

// notices returns the licences of Go and of the modules that programs are built
// from. A module without a licence is an error, because it may not be
// distributed.
func (r release) notices(mods []debug.Module) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "Stout is built from the following works of others, under their own terms.\n"+
		"The source of each is to be had by: go mod download -json PATH@VERSION\n")
	goroot, err := r.goCommand("env", "GOROOT")
	if err != nil {
		return nil, err
	}
	if err := addNotices(&out, "Go (https://go.dev)", string(bytes.TrimSpace(goroot))); err != nil {
		return nil, err
	}
	args := []string{"mod", "download", "-json"}
	for _, m := range mods {
		args = append(args, m.Path+"@"+m.Version)
	}
	if len(mods) == 0 {
		return out.Bytes(), nil
	}
	list, err := r.goCommand(args...)
	if err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(bytes.NewReader(list)); ; {
		var m struct{ Path, Version, Dir string }
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return out.Bytes(), nil
		} else if err != nil {
			return nil, err
		}
		if err := addNotices(&out, m.Path+" "+m.Version, m.Dir); err != nil {
			return nil, err
		}
	}
}

func addNotices(out *bytes.Buffer, name, dir string) error {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return err
	}
	found := false
	for _, e := range entries {
		if !e.Type().IsRegular() || !licences.MatchString(e.Name()) {
			continue
		}
		body, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		found = true
		fmt.Fprintf(out, "\n%s\n%s: %s\n\n%s\n", "================================================================", name, e.Name(), bytes.TrimSpace(body))
	}
	if !found {
		return fmt.Errorf("%s has no licence in %s: it cannot be given away", name, dir)
	}
	return nil
}

func (r release) goCommand(args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = r.root, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, stderr.String())
	}
	return out, nil
}
