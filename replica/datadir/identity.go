package datadir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/disk"
)

// dataFormat is the version of the data directory's layout.
const dataFormat = 4

const identityFile = "replica.json"

// identify creates the directory, or checks that it belongs to this replica of
// this cell. Votes and log entries are promises of one member: under another
// name they would be broken.
func identify(dir, cell, id string) (admission.Identity, error) {
	var have admission.Identity
	if err := disk.MakeDir(dir); err != nil {
		return have, fmt.Errorf("data directory %s: %w", dir, err)
	}
	name := filepath.Join(dir, identityFile)
	raw, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		have = admission.Identity{Format: dataFormat, Cell: cell, ID: id, Directory: admission.NewDirectory()}
		return have, found(dir, have)
	}
	if err != nil {
		return have, fmt.Errorf("data directory %s: %w", dir, err)
	}
	have, sum, err := readIdentity(raw)
	if err != nil {
		return have, fmt.Errorf("data directory %s: %s is damaged: %w; %s", dir, identityFile, err, disk.Cure)
	}
	switch {
	case have.Format > dataFormat:
		return have, fmt.Errorf("data directory %s has format %d, written by a newer release; this one reads format %d", dir, have.Format, dataFormat)
	case have.Format < dataFormat:
		return have, fmt.Errorf("data directory %s has format %d, which this release does not read; it reads format %d", dir, have.Format, dataFormat)
	case have.Cell != cell:
		return have, fmt.Errorf("data directory %s belongs to cell %q, not to %q; check the data directory and the cell's name", dir, have.Cell, cell)
	case have.ID != id:
		return have, fmt.Errorf("data directory %s belongs to replica %q, not to %q; a replica keeps its id for life", dir, have.ID, id)
	case sum != identitySum(have):
		return have, fmt.Errorf("data directory %s: %s is damaged: %w; %s", dir, identityFile, disk.ErrDamaged, disk.Cure)
	}
	return have, nil
}

func found(dir string, who admission.Identity) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("data directory %s: %w", dir, err)
	}
	for _, e := range entries {
		if e.Name() != identityFile+".new" && e.Name() != "lost+found" {
			return fmt.Errorf("data directory %s holds %q but no %s: it is not a replica's data directory; use an empty directory", dir, e.Name(), identityFile)
		}
	}
	return writeIdentity(dir, who)
}

// keptIdentity is the form of an identity in its file. Without the checksum, a
// flipped bit could change the directory's owner, or make it a founder of
// another cell.
type keptIdentity struct {
	admission.Identity
	Checksum string `json:"checksum"` // CRC-32C of the identity's own JSON, in hexadecimal
}

func identitySum(who admission.Identity) string {
	raw, _ := json.Marshal(who) // of strings and numbers
	return fmt.Sprintf("%08x", crc32.Checksum(raw, disk.Castagnoli))
}

// readIdentity reads an identity. From one with another format it reads only
// the format, because its other fields may differ.
func readIdentity(raw []byte) (who admission.Identity, sum string, err error) {
	var of struct {
		Format int `json:"format"`
	}
	if json.Unmarshal(raw, &of) == nil && of.Format > dataFormat {
		return admission.Identity{Format: of.Format}, "", nil
	}
	var kept keptIdentity
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	err = in.Decode(&kept)
	return kept.Identity, kept.Checksum, err
}

func writeIdentity(dir string, who admission.Identity) error {
	raw, err := json.MarshalIndent(keptIdentity{who, identitySum(who)}, "", "  ")
	if err != nil {
		return err
	}
	if err := disk.WriteFile(filepath.Join(dir, identityFile), append(raw, '\n')); err != nil {
		return fmt.Errorf("data directory %s: %w", dir, err)
	}
	return nil
}
