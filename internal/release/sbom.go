package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// modules returns the modules that programs are built from, each once, by path.
// A replaced module counts as its replacement.
func modules(infos []*buildinfo.BuildInfo) (mods []debug.Module) {
	for _, info := range infos {
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			mods = append(mods, *m)
		}
	}
	slices.SortFunc(mods, func(a, b debug.Module) int { return strings.Compare(a.Path+"@"+a.Version, b.Path+"@"+b.Version) })
	return slices.CompactFunc(mods, func(a, b debug.Module) bool { return a.Path == b.Path && a.Version == b.Version })
}

// bom returns the bill of materials of a target's programs, as CycloneDX JSON.
// It lists what the linker put into them, not what go.mod would allow.
func (r release) bom(t target, goVersion string, mods []debug.Module) ([]byte, error) {
	self := "pkg:golang/github.com/stoutlock/stout@" + r.version + "?goos=" + t.os + "&goarch=" + t.arch
	std := strings.TrimPrefix(goVersion, "go")
	components := []cyclonedx.Component{{
		BOMRef: "pkg:golang/std@" + std, Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: std,
		PackageURL: "pkg:golang/std@" + std, Scope: cyclonedx.ScopeRequired,
	}}
	for _, m := range mods {
		purl := "pkg:golang/" + m.Path + "@" + m.Version
		c := cyclonedx.Component{BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
			PackageURL: purl, Scope: cyclonedx.ScopeRequired}
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
		if err != nil || len(sum) != sha256.Size {
			return nil, fmt.Errorf("module %s@%s: its checksum is %q", m.Path, m.Version, m.Sum)
		}
		c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		components = append(components, c)
	}
	refs := []string{}
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	doc := cyclonedx.NewBOM()
	doc.SerialNumber = serial(self, refs)
	doc.Metadata = &cyclonedx.Metadata{
		Timestamp: r.time.Format(time.RFC3339),
		Component: &cyclonedx.Component{BOMRef: self, Type: cyclonedx.ComponentTypeApplication, Name: "stout", Version: r.version, PackageURL: self,
			Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}},
	}
	doc.Components = &components
	doc.Dependencies = &[]cyclonedx.Dependency{{Ref: self, Dependencies: &refs}}
	var out bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(doc, cyclonedx.SpecVersion1_6)
	return out.Bytes(), err
}

// serial returns a UUID (version 8, RFC 9562) that is the same for the same
// content.
func serial(self string, refs []string) string {
	sum := sha256.Sum256([]byte(self + "\n" + strings.Join(refs, "\n")))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
