package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stoutlock/stout/replica/disk"
)

// recoveredFile, where it is there, says that another cell goes on from the directory. It
// is written before that cell is founded, and again after: whenever the process is killed,
// at most one of the two directories can be opened.
const recoveredFile = "recovered.json"

// Recovery is a cell that goes on from a directory.
type Recovery struct {
	Into   string `json:"into"`    // its own data directory
	CellID string `json:"cell_id"` // empty while it may not be founded yet
}

// readRecovery reads what a directory says; the zero Recovery where it says nothing.
func readRecovery(dir string) (r Recovery, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, recoveredFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return r, nil
	case err == nil:
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		return r, fmt.Errorf("data directory %s: %s: %w", dir, recoveredFile, err)
	}
	return r, nil
}

// recovered is why a directory is not to be opened as a replica's, nil where it may be.
func recovered(dir string) error {
	r, err := readRecovery(dir)
	switch {
	case err != nil:
		return err
	case r.Into == "":
		return nil
	case r.CellID == "":
		return fmt.Errorf("data directory %s is not to be opened any more (%s): stoutd recover began to found a cell from it in %s; run it again, and it goes on from there", dir, recoveredFile, r.Into)
	}
	return fmt.Errorf("data directory %s is not to be opened any more (%s): the cell was recovered from it, as the cell with id %s in %s", dir, recoveredFile, r.CellID, r.Into)
}

// Recover notes, durably, that another cell goes on from the directory, or is about to.
func (d *Dir) Recover(r Recovery) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return disk.WriteFile(filepath.Join(d.path, recoveredFile), append(raw, '\n'))
}

// LockStopped is Lock, also of a directory from which a cell is about to be founded. It
// returns what the directory says of that cell.
func LockStopped(path, cell, id string) (*Dir, Recovery, error) {
	r, err := readRecovery(path)
	if err != nil {
		return nil, r, err
	}
	if r.Into == "" || r.CellID != "" {
		d, err := Lock(path, cell, id)
		return d, r, err
	}
	d, err := lock(path, cell, id, quarantined)
	return d, r, err
}

// FoundedIn is the id of the cell that was founded in a directory by Begin and its finish;
// empty where there is none.
func FoundedIn(dir string) (cellID string, err error) {
	if begun, err := isUnfinished(dir); err != nil || begun {
		return "", err
	}
	raw, err := os.ReadFile(filepath.Join(dir, identityFile))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("data directory %s: %w", dir, err)
	}
	who, _, err := readIdentity(raw)
	if err != nil {
		return "", fmt.Errorf("data directory %s: %s is damaged: %w", dir, identityFile, err)
	}
	return who.CellID, nil
}
