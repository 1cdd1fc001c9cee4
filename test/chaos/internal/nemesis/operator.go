package nemesis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/test/cell"
)

// operatorFaults are what an operator does to a cell that lives for years.
var operatorFaults = []fault{
	{name: "replace", about: "wipe the directory of one replica, have another admitted in its place", most: 5 * time.Second, begin: replace},
	{name: "wipe", about: "run one replica with an empty directory; put the old one back, or admit the new", least: 2 * time.Second, most: 6 * time.Second, begin: wipe},
	{name: "upgrade", about: "restart one replica with the release before, or again with this one", begin: upgrade},
	{name: "backup", about: "take a backup, which is whole or says that it is not", begin: takeBackup},
}

// admitting bounds how long it takes until a new directory votes, whatever other
// faults are under way: it is many times what it takes.
const admitting = 2 * time.Minute

// replace loses one disk. The next one is lost only when that replica is a voter
// again: the majority of the disks that Stout relies on is never gone.
func replace(ctx context.Context, r *rand.Rand, n *Nemesis) (string, func() error, error) {
	if !n.replacing.TryLock() {
		return "nobody: another one is under way", nil, nil
	}
	victim := n.any(ctx, r)
	if err := n.keeper.wipe(victim); err != nil {
		n.replacing.Unlock()
		return victim.ID, nil, err
	}
	return victim.ID, func() error {
		defer n.replacing.Unlock()
		if err := n.keeper.start(victim); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), admitting)
		defer cancel()
		return n.Cell.Admit(ctx, victim)
	}, nil
}

// wipe has one replica run with a new directory that nobody has admitted: it must not
// help to elect anybody, whatever else is going on. Its old directory has kept all that
// it had acknowledged, and may come back.
func wipe(ctx context.Context, r *rand.Rand, n *Nemesis) (string, func() error, error) {
	if !n.replacing.TryLock() {
		return "nobody: another one is being replaced", nil, nil
	}
	victim, comesBack := n.any(ctx, r), r.IntN(2) == 0
	away := victim.DataDir + ".away"
	err := n.keeper.swap(victim, func() error { return os.Rename(victim.DataDir, away) })
	if err = errors.Join(err, n.keeper.start(victim)); err != nil {
		n.replacing.Unlock()
		return victim.ID, nil, err
	}
	if !comesBack {
		return victim.ID + ", for good", func() error {
			defer n.replacing.Unlock()
			if err := errors.Join(os.RemoveAll(away), n.keeper.start(victim)); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), admitting)
			defer cancel()
			return n.Cell.Admit(ctx, victim)
		}, nil
	}
	return victim.ID + ", for a while", func() error {
		defer n.replacing.Unlock()
		err := n.keeper.swap(victim, func() error { return errors.Join(os.RemoveAll(victim.DataDir), os.Rename(away, victim.DataDir)) })
		return errors.Join(err, n.keeper.start(victim))
	}, nil
}

// upgrade has one replica change its release. The last one stays behind, so that the
// cell's level does not rise, and the way back stays open.
func upgrade(ctx context.Context, r *rand.Rand, n *Nemesis) (string, func() error, error) {
	all := n.Cell.Replicas()
	one := all[r.IntN(len(all)-1)]
	to, what := n.Before, one.ID+" to the release before"
	if r.IntN(2) == 0 {
		to, what = n.Present, one.ID+" to this release"
	}
	if to == "" {
		return "nobody: there is one release", nil, nil
	}
	err := n.keeper.terminate(one)
	one.Use(to)
	return what, nil, errors.Join(err, n.keeper.start(one))
}

// backupTime bounds one backup; without a master there is none to be had.
const backupTime = 5 * time.Second

func takeBackup(ctx context.Context, r *rand.Rand, n *Nemesis) (string, func() error, error) {
	from := n.any(ctx, r)
	c, err := client.New(from.URL)
	if err != nil {
		return "", nil, err
	}
	defer c.Close()
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), backupTime)
	defer cancel()
	var file bytes.Buffer
	h, err := c.Backup(within, &file)
	_, broken := backup.Verify(&file)
	switch {
	case err != nil && broken == nil:
		return from.ID, nil, fmt.Errorf("a backup that is whole is said to be none: %w", err)
	case err == nil && broken != nil:
		return from.ID, nil, fmt.Errorf("a backup of revision %d is not whole: %w", h.Revision, broken)
	case err != nil:
		return fmt.Sprintf("through %s (failed)", from.ID), nil, nil // as it may: there may be no master
	}
	return fmt.Sprintf("through %s, of revision %d", from.ID, h.Revision), nil, nil
}

// present has a replica run this release.
func (n *Nemesis) present(r *cell.Replica) error {
	if n.Present == "" {
		return nil
	}
	err := n.keeper.terminate(r)
	r.Use(n.Present)
	return errors.Join(err, n.keeper.start(r))
}
