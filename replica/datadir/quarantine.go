package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stoutlock/stout/replica/disk"
)

// quarantineFile, where it is there, says why the directory must not be opened.
// A process would be started again by its supervisor; but a state that differs
// is in the snapshots, too, and a replica that is elected with one would serve
// it. And the master who knows what a directory has forgotten may be gone by
// then.
//
// Where all but the master were found to differ, they keep the cell from
// serving until a person has looked: the master is the odd one then. With the
// master stopped and its directory put away, the others are started again
// without this file: sums that were told before a start are not compared.
const quarantineFile = "quarantined.txt"

// quarantine has a directory not opened again.
func quarantine(dir, why string) error {
	return disk.WriteFile(filepath.Join(dir, quarantineFile), []byte(why+"\n"))
}

// quarantined is why a directory is not to be opened, nil where it may be.
func quarantined(dir string) error {
	why, err := os.ReadFile(filepath.Join(dir, quarantineFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("data directory %s: %w", dir, err)
	}
	return fmt.Errorf("data directory %s is not to be opened any more (%s): %s", dir, quarantineFile, strings.TrimSpace(string(why)))
}
