//go:build unix

package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// TestImage: the image is valid and complete. Its programs run with its files alone, not
// as root, and write only to the data directory.
func TestImage(t *testing.T) {
	b := hostBuild(t)
	if b.build.target.os != "linux" {
		t.Skipf("the image is for Linux, and this is %s", b.build.target.os)
	}
	out := t.TempDir()
	must(t, b.release.writeImage(out, []build{b.build}))
	image := readImage(t, out)
	config, err := image.ConfigFile()
	must(t, err)
	if c := config.Config; c.User != "65532:65532" || strings.Join(append(c.Entrypoint, c.Cmd...), " ") != "/usr/bin/stoutd --config /etc/stout/stoutd.yaml" {
		t.Errorf("it runs %q %q as %q", c.Entrypoint, c.Cmd, c.User)
	}
	if layers, err := image.Layers(); err != nil || len(layers) != 1 {
		t.Errorf("%d layers, %v; want 1, from scratch", len(layers), err)
	}

	dir := t.TempDir()
	unpack(t, image, dir)
	// Without settings the image does not serve.
	cmd := inside(t, dir, append(config.Config.Entrypoint, config.Config.Cmd...))
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "/etc/stout/stoutd.yaml") {
		t.Errorf("without settings: %v\n%s", err, out)
	}
	before := tree(t, dir)
	serve(t, dir)
	if after := tree(t, dir); before != after {
		t.Errorf("its root has changed:\n%s\nwas\n%s", after, before)
	}
}

// readImage reads an image of one architecture from a layout and checks its digests.
func readImage(t *testing.T, dir string) v1.Image {
	t.Helper()
	index, err := layout.ImageIndexFromPath(dir)
	must(t, err)
	must(t, validate.Index(index))
	for {
		m, err := index.IndexManifest()
		if err != nil || len(m.Manifests) != 1 {
			t.Fatalf("%+v, %v", m, err)
		}
		if d := m.Manifests[0]; d.MediaType.IsImage() {
			image, err := index.Image(d.Digest)
			must(t, err)
			return image
		}
		if index, err = index.ImageIndex(m.Manifests[0].Digest); err != nil {
			t.Fatal(err)
		}
	}
}

func unpack(t *testing.T, image v1.Image, dir string) {
	t.Helper()
	stream := mutate.Extract(image)
	defer stream.Close()
	for r := tar.NewReader(stream); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, h.FileInfo().Mode().Perm())
		} else {
			var body []byte
			if body, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, body, h.FileInfo().Mode().Perm())
			}
		}
		if err == nil && os.Geteuid() == 0 {
			err = os.Chown(name, h.Uid, h.Gid)
		}
		must(t, err)
	}
	must(t, os.Chmod(dir, 0o755))
}

// inside returns a command in the image's root, as the image's user. Without root's
// rights, it runs the image's program by its path in dir.
func inside(t *testing.T, dir string, args []string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = []string{}
	if os.Geteuid() == 0 {
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
		cmd.Path, cmd.Err = args[0], nil
		return cmd
	}
	for i, a := range args {
		if strings.HasPrefix(a, "/") {
			args[i] = filepath.Join(dir, a)
		}
	}
	return exec.CommandContext(t.Context(), args[0], args[1:]...)
}

// serve runs a cell of one in the image's root, waits until it is ready, makes a call
// and stops it.
func serve(t *testing.T, dir string) {
	t.Helper()
	state := filepath.Join(dir, "var/lib/stoutd")
	name := filepath.Join(state, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Skipf("no socket can be made (its name may be too long: %q): %v", name, err)
	}
	defer os.Remove(name)
	defer socket.Close()
	must(t, os.Chmod(name, 0o666))
	api, raft := freeAddr(t), freeAddr(t)
	cmd := inside(t, dir, []string{"/usr/bin/stoutd", "--cell", "test", "--id", "r1", "--data-dir", "/var/lib/stoutd/data",
		"--api-listen", api, "--raft-listen", raft, "--replica", "r1=" + raft + ",http://" + api})
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Env = []string{"NOTIFY_SOCKET=/var/lib/stoutd/notify"}
	if os.Geteuid() != 0 {
		cmd.Env = []string{"NOTIFY_SOCKET=" + name}
	}
	must(t, cmd.Start())
	must(t, socket.SetReadDeadline(time.Now().Add(5*time.Minute)))
	for buf := make([]byte, 1024); ; {
		n, err := socket.Read(buf)
		if err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("the cell does not serve: %v\n%s", err, output.String())
		}
		if string(buf[:n]) == "READY=1" {
			break
		}
	}
	resp, err := http.Get("http://" + api + "/livez")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("/livez: %v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, output.String())
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// tree lists everything below a directory, with modes and contents, except the data.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var list strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%s %s", strings.TrimPrefix(name, dir), info.Mode())
		if info.Mode().IsRegular() {
			body, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&list, " %x", sha256.Sum256(body))
		}
		fmt.Fprintln(&list)
		if strings.HasSuffix(name, "/var/lib/stoutd") {
			return fs.SkipDir
		}
		return nil
	})
	must(t, err)
	return list.String()
}
