package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/disk"
)

// unfinished is the reason to refuse a directory in which finish did not follow
// Begin.
const unfinished = "stoutd restore or stoutd recover was interrupted while it founded a cell here; empty the directory, and run it again"

// isUnfinished reports whether a directory has a Begin without its finish.
func isUnfinished(dir string) (bool, error) {
	why, err := os.ReadFile(filepath.Join(dir, quarantineFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return strings.TrimSpace(string(why)) == unfinished, err
}

// Empty returns an error if no cell can be founded in the directory; nil also
// for a missing one. It changes nothing.
func Empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("data directory %s: %w", dir, err)
	}
	if begun, err := isUnfinished(dir); err != nil || begun {
		return cmp.Or(err, fmt.Errorf("data directory %s: %s", dir, unfinished))
	}
	for _, e := range entries {
		if e.Name() != "lost+found" && e.Name() != quarantineFile+".new" {
			return fmt.Errorf("data directory %s is not empty: it holds %q; use an empty directory; nothing was changed", dir, e.Name())
		}
	}
	return nil
}

// Begin opens new stores for a member of a cell in an empty directory. They
// cannot be opened again until finish has returned nil: a crash leaves a
// directory that is empty, or refused with advice. finish closes the stores.
// The caller must call giveUp if it does not call finish.
func Begin(dir string, who admission.Identity, wal bool, logger zerolog.Logger) (s Stores, finish, giveUp func() error, err error) {
	if err := Empty(dir); err != nil {
		return s, nil, nil, err
	}
	if err := disk.MakeDir(dir); err != nil {
		return s, nil, nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return s, nil, nil, err
	}
	if err := Empty(dir); err != nil { // another process may have had it until now
		return s, nil, nil, errors.Join(err, lock.Close())
	}
	if err := quarantine(dir, unfinished); err != nil {
		return s, nil, nil, errors.Join(fmt.Errorf("data directory %s: %w", dir, err), lock.Close())
	}
	who.Format = dataFormat
	err = writeIdentity(dir, who)
	if err == nil {
		s, err = (&Dir{path: dir, identity: who}).Open(wal, logger)
	}
	if err != nil {
		return s, nil, nil, errors.Join(err, lock.Close())
	}
	giveUp = func() error { return errors.Join(s.Close(), lock.Close()) }
	finish = func() error {
		who.Founded = true
		err := errors.Join(s.Close(), writeIdentity(dir, who))
		if err == nil {
			err = os.Remove(filepath.Join(dir, quarantineFile))
		}
		if err == nil {
			err = disk.SyncDir(dir)
		}
		return errors.Join(err, lock.Close())
	}
	return s, finish, giveUp, nil
}
