package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stoutlock/stout/replica/disk"
)

// quarantineFile, if present, gives the reason why the directory must not be
// opened. Ending the process is not enough:
//
//   - A supervisor would restart it. A state that differs is in the snapshots,
//     too, and the replica would serve that state if elected.
//   - A master that knows what a directory has forgotten may be gone by then.
//
// If all replicas but the master have this file, the master itself is probably
// faulty, and the cell does not serve. The operator then stops the master, puts
// its directory away, and restarts the others without this file. Sums that were
// reported before a start are not compared.
const quarantineFile = "quarantined.txt"

// quarantine prevents a directory from being opened again.
func quarantine(dir, why string) error {
	return disk.WriteFile(filepath.Join(dir, quarantineFile), []byte(why+"\n"))
}

// quarantined returns why a directory must not be opened, nil if it may be.
func quarantined(dir string) error {
	why, err := os.ReadFile(filepath.Join(dir, quarantineFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("data directory %s: %w", dir, err)
	}
	return fmt.Errorf("data directory %s must not be opened any more (%s): %s", dir, quarantineFile, strings.TrimSpace(string(why)))
}
