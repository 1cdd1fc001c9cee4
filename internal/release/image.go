package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageUser is the numeric user of a container, so that Kubernetes can see that
// it is not root.
const imageUser = 65532

// writeImage writes an image for all architectures as a directory, in OCI's
// layout.
func (r release) writeImage(out string, builds []build) error {
	if err := emptyDir(out); err != nil {
		return err
	}
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range builds {
		image, err := r.image(b)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.target.os, Architecture: b.target.arch}}})
	}
	path, err := layout.Write(out, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version}))
}

// writeImageFile writes the layout as one file.
func (r release) writeImageFile(out string, builds []build) error {
	dir, err := os.MkdirTemp("", "stout-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := r.writeImage(dir, builds); err != nil {
		return err
	}
	var files []file
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name[0] == '.' {
			return err
		}
		body, err := os.ReadFile(filepath.Join(dir, name))
		files = append(files, file{name: name, mode: 0o644, body: body})
		return err
	})
	if err != nil {
		return err
	}
	body, err := tarred(files, r.time)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, r.name()+"_image.oci.tar"), body, 0o644)
}

// image returns an image for one architecture, of one layer without a base: the
// programs, and no shell. Programs write only below /var/lib/stoutd, so the
// root can be read-only. It does not serve without a settings file.
func (r release) image(b build) (v1.Image, error) {
	root := []file{
		{name: "etc/passwd", mode: 0o644, body: []byte("stoutd:x:65532:65532:stoutd:/var/lib/stoutd:/sbin/nologin\n")},
		{name: "etc/group", mode: 0o644, body: []byte("stoutd:x:65532:\n")},
		{name: "etc/stout/", mode: 0o755},
		{name: "usr/share/doc/stout/LICENSES-OF-OTHERS.txt", mode: 0o644, body: b.notices},
		{name: "usr/share/doc/stout/sbom.cdx.json", mode: 0o644, body: b.bom},
		{name: "var/lib/stoutd/", mode: 0o700, uid: imageUser},
	}
	for _, p := range b.programs {
		p.name = "usr/bin/" + p.name
		root = append(root, p)
	}
	body, err := tarred(root, r.time)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	made := v1.Time{Time: r.time.Truncate(time.Second)}
	image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer: layer, History: v1.History{Created: made, CreatedBy: "stout release " + r.version}})
	if err != nil {
		return nil, err
	}
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.target.os, b.target.arch, made
	config.Config = v1.Config{
		User:         "65532:65532",
		Entrypoint:   []string{"/usr/bin/stoutd"},
		Cmd:          []string{"--config", "/etc/stout/stoutd.yaml"},
		Env:          []string{"PATH=/usr/bin"},
		WorkingDir:   "/var/lib/stoutd",
		Volumes:      map[string]struct{}{"/var/lib/stoutd": {}},
		ExposedPorts: map[string]struct{}{"7101/tcp": {}, "7201/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": "Stout", "org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.revision,
			"org.opencontainers.image.source": "https://github.com/stoutlock/stout", "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}
