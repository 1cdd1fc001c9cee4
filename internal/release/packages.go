package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const description = `Lock service: locks, leader election and small files
 stoutd is one replica of a cell of three or five, which elect a master; stout is
 the command line. The service is not started by installing it: it wants
 /etc/stout/stoutd.yaml first, which has TLS, access and an audit log on.`

// writePackages writes a .deb and an .rpm.
func (r release) writePackages(out string, b build) error {
	tree, err := os.MkdirTemp("", "stout-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	for _, format := range []string{"deb", "rpm"} {
		if err := r.writePackage(out, format, tree, b); err != nil {
			return fmt.Errorf("%s for %s: %w", format, b.target, err)
		}
	}
	return nil
}

func (r release) writePackage(out, format, tree string, b build) error {
	info, err := r.info(tree, b)
	if err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	name := packager.ConventionalFileName(info)
	f, err := os.Create(filepath.Join(out, name))
	if err != nil {
		return err
	}
	if err := packager.Package(info, f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// info describes a package and its content. Generated files are written below
// tree.
func (r release) info(tree string, b build) (*nfpm.Info, error) {
	source := func(name string) string { return filepath.Join(r.root, name) }
	made := []file{{name: "LICENSES-OF-OTHERS.txt", mode: 0o644, body: b.notices}, {name: "sbom.cdx.json", mode: 0o644, body: b.bom}}
	contents := files.Contents{}
	add := func(from, to, kind string, mode os.FileMode) {
		contents = append(contents, &files.Content{Source: from, Destination: to, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode}})
	}
	for _, p := range append(made, b.programs...) {
		name := filepath.Join(tree, p.name)
		if err := os.WriteFile(name, p.body, 0o600); err != nil {
			return nil, err
		}
		to := "/usr/share/doc/stout/" + p.name
		if p.mode&0o100 != 0 {
			to = "/usr/bin/" + p.name
		}
		add(name, to, files.TypeFile, p.mode)
	}
	add(source("configs/secure.yaml"), "/etc/stout/stoutd.yaml", files.TypeConfigNoReplace, 0o644)
	add(source("configs/systemd/stoutd.service"), "/usr/lib/systemd/system/stoutd.service", files.TypeFile, 0o644)
	add(source("configs/systemd/stoutd.sysusers.conf"), "/usr/lib/sysusers.d/stoutd.conf", files.TypeFile, 0o644)
	add(source("configs/systemd/stoutd.needrestart.conf"), "/etc/needrestart/conf.d/stoutd.conf", files.TypeConfigNoReplace, 0o644)
	contents[len(contents)-1].Packager = "deb"
	add(source("LICENSE"), "/usr/share/doc/stout/copyright", files.TypeFile, 0o644)
	pages, err := filepath.Glob(source("docs/*.md"))
	if err != nil {
		return nil, err
	}
	for _, page := range append(pages, source("README.md"), source("CHANGELOG.md")) {
		to, err := filepath.Rel(r.root, page)
		if err != nil {
			return nil, err
		}
		add(page, "/usr/share/doc/stout/"+filepath.ToSlash(to), files.TypeFile, 0o644)
	}
	for _, dir := range []string{"/etc/stout", "/usr/share/doc/stout", "/usr/share/doc/stout/docs"} {
		add("", dir, files.TypeDir, 0o755)
	}
	script := func(name string) string { return source("internal/release/scripts/" + name + ".sh") }
	info := &nfpm.Info{
		Name: "stout", Arch: b.target.arch, Platform: "linux", Version: r.number, Release: "1",
		Section: "net", Priority: "optional", Maintainer: "The Stout authors <stout@stoutlock.example>",
		Description: description, Homepage: "https://github.com/stoutlock/stout", License: "Apache-2.0",
		MTime: r.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Contents: contents, Umask: 0o022,
			Scripts: nfpm.Scripts{PostInstall: script("postinstall"), PreRemove: script("preremove"), PostRemove: script("postremove")},
			Deb:     nfpm.Deb{Compression: "gzip"},
			RPM:     nfpm.RPM{BuildHost: "localhost", Compression: "gzip", Summary: "Lock service: locks, leader election and small files"},
		},
	}
	info.Deb.Fields = map[string]string{"Bugs": "https://github.com/stoutlock/stout/issues"}
	info.Depends = []string{"systemd"}
	return nfpm.WithDefaults(info), nil
}
