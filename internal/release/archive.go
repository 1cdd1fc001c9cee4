package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is an entry of an archive, named by its path there. A name that ends in
// "/" is a directory.
type file struct {
	name string
	mode os.FileMode
	body []byte
	uid  int
}

// carried returns the source files that go into each archive.
func (r release) carried() (files []file, err error) {
	names := []string{"LICENSE", "README.md", "CHANGELOG.md"}
	more, err := filepath.Glob(filepath.Join(r.root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(filepath.Join(r.root, "configs"), func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			more = append(more, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, name := range more {
		name, err := filepath.Rel(r.root, name)
		if err != nil {
			return nil, err
		}
		names = append(names, filepath.ToSlash(name))
	}
	for _, name := range names {
		body, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, mode: 0o644, body: body})
	}
	return files, nil
}

// writeArchive writes a target's archive, with its bill of materials beside it.
func (r release) writeArchive(out string, b build) error {
	files, err := r.carried()
	if err != nil {
		return err
	}
	files = append(files, file{name: "LICENSES-OF-OTHERS.txt", mode: 0o644, body: b.notices}, file{name: "sbom.cdx.json", mode: 0o644, body: b.bom})
	files = append(files, b.programs...)
	name := r.name() + "_" + b.target.os + "_" + b.target.arch
	for i := range files {
		files[i].name = name + "/" + files[i].name
	}
	if err := os.WriteFile(filepath.Join(out, name+".cdx.json"), b.bom, 0o644); err != nil {
		return err
	}
	if b.target.os == "windows" {
		body, err := zipped(files, r.time)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(out, name+".zip"), body, 0o644)
	}
	plain, err := tarred(files, r.time)
	if err != nil {
		return err
	}
	body, err := gzipped(plain)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, name+".tar.gz"), body, 0o644)
}

// tarred packs files by name, with the directories that they are in.
func tarred(files []file, when time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range withDirs(files) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode.Perm()), Size: int64(len(f.body)), ModTime: when,
			Uid: f.uid, Gid: f.uid, Format: tar.FormatPAX}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.body); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func gzipped(plain []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

func zipped(files []file, when time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range sorted(files) {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: when}
		h.SetMode(f.mode)
		entry, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.body); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
}

// withDirs adds the directories of files, each once and before its content.
func withDirs(files []file) []file {
	known := map[string]bool{}
	for _, f := range files {
		known[f.name] = true
	}
	all := slices.Clone(files)
	for _, f := range files {
		for i, c := range strings.TrimSuffix(f.name, "/") {
			if dir := f.name[:i] + "/"; c == '/' && i > 0 && !known[dir] {
				known[dir] = true
				all = append(all, file{name: dir, mode: 0o755})
			}
		}
	}
	return sorted(all)
}

// writeSums writes SHA256SUMS of all files in a directory, for sha256sum -c.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		body, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(body), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), sums.Bytes(), 0o644)
}
