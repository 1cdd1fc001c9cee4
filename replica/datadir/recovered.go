package datadir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stoutlock/stout/replica/disk"
)

// recoveredFile, if present, records that another cell continues from the
// directory. It is written before that cell is founded, and again after. So at
// most one of the two directories can be opened, whenever the process is
// killed.
const recoveredFile = "recovered.json"

// Recovery is a cell that continues from a directory.
type Recovery struct {
	Into   string `json:"into"`    // its own data directory
	CellID string `json:"cell_id"` // empty while that cell may not be founded yet
}

// readRecovery reads the record in a directory; the zero Recovery if it has
// none.
func readRecovery(dir string) (r Recovery, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, recoveredFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return r, nil
	case err == nil:
		in := json.NewDecoder(bytes.NewReader(raw))
		in.DisallowUnknownFields()
		if err = in.Decode(&r); err == nil && r.Into == "" {
			err = ErrDamaged
		}
	}
	if err != nil {
		return r, fmt.Errorf("data directory %s: %s: %w", dir, recoveredFile, err)
	}
	return r, nil
}

// recovered returns why a directory must not be opened as a replica's, nil if
// it may be.
func recovered(dir string) error {
	r, err := readRecovery(dir)
	switch {
	case err != nil:
		return err
	case r.Into == "":
		return nil
	case r.CellID == "":
		return fmt.Errorf("data directory %s must not be opened any more (%s): stoutd recover began to found a cell from it in %s; run it again to finish that", dir, recoveredFile, r.Into)
	}
	return fmt.Errorf("data directory %s must not be opened any more (%s): the cell was recovered from it, as the cell with id %s in %s", dir, recoveredFile, r.CellID, r.Into)
}

// Recover durably records that another cell continues from the directory, or is
// about to.
func (d *Dir) Recover(r Recovery) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return disk.WriteFile(filepath.Join(d.path, recoveredFile), append(raw, '\n'))
}

// LockStopped is Lock for a directory from which a cell may be about to be
// founded. It also returns the directory's record of that cell.
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

// FoundedIn returns the id of the cell that Begin and its finish have founded
// in a directory; empty without one.
func FoundedIn(dir string) (cellID string, err error) {
	// The end of the founding may not be on the disk yet.
	if err := disk.SyncDir(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("data directory %s: %w", dir, err)
	}
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
