package replica

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stoutlock/stout/replica/admission"
)

// dataFormat is the version of the data directory's layout.
const dataFormat = 3

const identityFile = "replica.json"

// claimDataDir makes the directory, or makes sure that it belongs to this very
// replica of this very cell. Votes and log entries are promises of one member:
// under another name they would be broken.
func claimDataDir(dir, cell, id string) (admission.Identity, error) {
	var have admission.Identity
	if why, err := os.ReadFile(filepath.Join(dir, condemnedFile)); err == nil {
		return have, fmt.Errorf("data directory %s is not to be opened any more (%s): %s", dir, condemnedFile, strings.TrimSpace(string(why)))
	} else if !errors.Is(err, os.ErrNotExist) {
		return have, fmt.Errorf("data directory %s: %w", dir, err)
	}
	if err := makeDir(dir); err != nil {
		return have, fmt.Errorf("data directory %s: %w", dir, err)
	}
	name := filepath.Join(dir, identityFile)
	raw, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		have = admission.Identity{Format: dataFormat, Cell: cell, ID: id, Directory: admission.NewDirectory()}
		return have, foundDataDir(dir, have)
	}
	if err != nil {
		return have, fmt.Errorf("data directory %s: %w", dir, err)
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	if err := in.Decode(&have); err != nil {
		return have, fmt.Errorf("data directory %s: %s is damaged: %w; %s", dir, identityFile, err, cure)
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
	case admission.CheckDirectory(have.Directory) != nil:
		return have, fmt.Errorf("data directory %s: %s is damaged: it has %q where the directory's id was; %s", dir, identityFile, have.Directory, cure)
	}
	return have, nil
}

// condemnedFile, where it is there, says why the directory must not be opened.
// A process would be started again by its supervisor; but a state that differs is
// in the snapshots, too, and a replica that is elected with one would serve it. And
// the master who knows what a directory has forgotten may be gone by then.
//
// Where all but the master were found to differ, they keep the cell from serving
// until a person has looked: the master is the odd one then. With the master
// stopped and its directory put away, the others are started again without this
// file: sums that were told before a start are not compared.
const condemnedFile = "condemned.txt"

func condemn(dir, why string) error {
	return writeDurably(filepath.Join(dir, condemnedFile), []byte(why+"\n"))
}

func foundDataDir(dir string, who admission.Identity) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("data directory %s: %w", dir, err)
	}
	for _, e := range entries {
		if e.Name() != identityFile+".new" && e.Name() != "lost+found" {
			return fmt.Errorf("data directory %s holds %q but no %s: it is not a replica's; give an empty directory", dir, e.Name(), identityFile)
		}
	}
	return writeIdentity(dir, who)
}

func writeIdentity(dir string, who admission.Identity) error {
	raw, err := json.MarshalIndent(who, "", "  ")
	if err != nil {
		return err
	}
	if err := writeDurably(filepath.Join(dir, identityFile), append(raw, '\n')); err != nil {
		return fmt.Errorf("data directory %s: %w", dir, err)
	}
	return nil
}
