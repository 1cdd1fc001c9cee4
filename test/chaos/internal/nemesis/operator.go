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
func replace(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	if !n.replacing.TryLock() {
		return harm{what: "nobody: another one is under way"}, nil
	}
	victim := n.any(ctx, r)
	h := harm{what: victim.ID, replicas: []*cell.Replica{victim}}
	if err := n.keeper.wipe(victim); err != nil {
		n.replacing.Unlock()
		return h, err
	}
	h.undo = func() error {
		defer n.replacing.Unlock()
		if err := n.keeper.start(victim); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), admitting)
		defer cancel()
		return n.Cell.Admit(ctx, victim)
	}
	return h, nil
}

// wipe has one replica run with a new directory that nobody has admitted: it must not
// help to elect anybody, whatever else is going on. Its old directory has kept all that
// it had acknowledged, and may come back.
func wipe(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	if !n.replacing.TryLock() {
		return harm{what: "nobody: another one is being replaced"}, nil
	}
	victim, comesBack := n.any(ctx, r), r.IntN(2) == 0
	h := harm{what: victim.ID + ", for a while", replicas: []*cell.Replica{victim}}
	away := victim.DataDir + ".away"
	err := n.keeper.swap(victim, func() error { return os.Rename(victim.DataDir, away) })
	if err = errors.Join(err, n.keeper.start(victim)); err != nil {
		n.replacing.Unlock()
		return h, err
	}
	if !comesBack {
		h.what = victim.ID + ", for good"
		h.undo = func() error {
			defer n.replacing.Unlock()
			if err := errors.Join(os.RemoveAll(away), n.keeper.start(victim)); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), admitting)
			defer cancel()
			return n.Cell.Admit(ctx, victim)
		}
		return h, nil
	}
	h.undo = func() error {
		defer n.replacing.Unlock()
		err := n.keeper.swap(victim, func() error { return errors.Join(os.RemoveAll(victim.DataDir), os.Rename(away, victim.DataDir)) })
		return errors.Join(err, n.keeper.start(victim))
	}
	return h, nil
}

// upgrade has one replica change its release. The last one stays behind, so that the
// cell's level does not rise, and the way back stays open.
func upgrade(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	all := n.Cell.Replicas()
	one := all[r.IntN(len(all)-1)]
	to, what := n.Before, one.ID+" to the release before"
	if r.IntN(2) == 0 {
		to, what = n.Present, one.ID+" to this release"
	}
	if to == "" {
		return harm{what: "nobody: there is one release"}, nil
	}
	err := n.keeper.terminate(one)
	one.Use(to)
	return harm{what: what, replicas: []*cell.Replica{one}}, errors.Join(err, n.keeper.start(one))
}

// backupTime bounds one backup; without a master there is none to be had.
const backupTime = 5 * time.Second

func takeBackup(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	from := n.any(ctx, r)
	c, err := client.New(from.URL)
	if err != nil {
		return harm{}, err
	}
	defer c.Close()
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), backupTime)
	defer cancel()
	var file bytes.Buffer
	head, err := c.Backup(within, &file)
	_, broken := backup.Verify(&file)
	h := harm{what: from.ID}
	switch {
	case err != nil && broken == nil:
		return h, fmt.Errorf("a backup that is whole is said to be none: %w", err)
	case err == nil && broken != nil:
		return h, fmt.Errorf("a backup of revision %d is not whole: %w", head.Revision, broken)
	case err != nil:
		h.what = fmt.Sprintf("through %s (failed)", from.ID) // as it may: there may be no master
	default:
		h.what = fmt.Sprintf("through %s, of revision %d", from.ID, head.Revision)
	}
	return h, nil
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
