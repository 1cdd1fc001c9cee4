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
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/internal/backup"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// operatorFaults are the actions of an operator on a cell that lives for years.
var operatorFaults = []fault{
	{name: "replace", about: "wipe the directory of one replica, admit a new one in its place", most: 5 * time.Second, begin: replace},
	{name: "wipe", about: "run one replica with an empty directory; restore the old one, or admit the new one", least: 2 * time.Second, most: 6 * time.Second, begin: wipe},
	{name: "upgrade", about: "restart one replica with the previous release, or again with this one; later upgrade all", releases: true, begin: upgrade},
	{name: "backup", about: "take a backup: it is complete, or reports that it is not", begin: takeBackup},
}

// admitting bounds the time until a new directory votes, with any other faults
// under way: it is many times what it takes.
const admitting = 2 * time.Minute

// replace loses one disk. The next one is lost only when that replica is a
// voter again, so Stout never loses the majority of disks that it relies on.
func replace(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	if !n.replacing.TryLock() {
		return harm{what: "no replica: another replacement is under way", failed: true}, nil
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

// wipe runs one replica with a new directory that was not admitted. That
// replica must not help to elect a leader, even during other faults. Its old
// directory has kept everything that it had acknowledged, and may return.
func wipe(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	if !n.replacing.TryLock() {
		return harm{what: "no replica: another one is being replaced", failed: true}, nil
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
		h.what = victim.ID + ", permanently"
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

// upgrade changes one replica's release. Until upgradeAll, the last replica
// keeps the old one, so that the cell's level does not rise and a downgrade
// stays possible.
func upgrade(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	n.releasing.Lock()
	defer n.releasing.Unlock()
	all := n.Cell.Replicas()
	one := all[r.IntN(len(all)-1)]
	to, what := n.Before, one.ID+" to the previous release"
	if r.IntN(2) == 0 || n.upgraded {
		to, what = n.Present, one.ID+" to this release"
	}
	err := n.keeper.terminate(one)
	one.Use(to)
	return harm{what: what, replicas: []*cell.Replica{one}}, errors.Join(err, n.keeper.start(one))
}

// upgradeAll gives every replica this release when it is time, one after the
// other.
func (n *Nemesis) upgradeAll(ctx context.Context) {
	if n.Present == "" || !cell.Pause(ctx, n.Upgrade) {
		return
	}
	n.releasing.Lock()
	defer n.releasing.Unlock()
	n.upgraded = true
	for _, r := range n.Cell.Replicas() {
		n.strike(ctx, draw{fault: fault{name: "upgrade", begin: func(context.Context, *rand.Rand, *Nemesis) (harm, error) {
			return harm{what: r.ID + " to this release, permanently", replicas: []*cell.Replica{r}}, n.present(r)
		}}})
		if !cell.Pause(ctx, mostCalm) {
			return
		}
	}
}

// backupTime bounds one backup; without a master there is no backup.
const backupTime = 5 * time.Second

func takeBackup(ctx context.Context, r *rand.Rand, n *Nemesis) (harm, error) {
	from := n.any(ctx, r)
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), backupTime)
	defer cancel()
	revision, refused, err := backUp(within, from.URL)
	h := harm{what: "through " + from.ID}
	if refused != nil {
		h.what, h.failed = h.what+" (failed)", true // this is allowed: there may be no master
	} else if err == nil {
		h.what += fmt.Sprintf(", of revision %d", revision)
	}
	return h, err
}

// backUp takes a backup through a replica. refused is the reason if there is no
// backup; err reports a backup that breaks a promise.
func backUp(ctx context.Context, url string) (revision uint64, refused, err error) {
	c, err := client.New(url)
	if err != nil {
		return 0, nil, err
	}
	defer c.Close()
	soon, cancel := context.WithTimeout(ctx, backupTime/5)
	defer cancel()
	before, _ := c.Revision(soon) // 0 without an answer
	var file bytes.Buffer
	head, refused := admin.New(c).Backup(ctx, &file)
	_, broken := backup.Verify(&file)
	switch {
	case errors.Is(refused, lockapi.CodeInternal) && broken == nil: // else the end of the stream may be missing
		return 0, nil, fmt.Errorf("a complete backup was reported as incomplete: %w", refused)
	case refused != nil:
		return 0, refused, nil
	case broken != nil:
		return 0, nil, fmt.Errorf("a backup of revision %d is incomplete: %w", head.Revision, broken)
	case head.Revision < before:
		return 0, nil, fmt.Errorf("a backup has revision %d, but the cell had reported %d before", head.Revision, before)
	}
	return head.Revision, nil, nil
}

// Backup takes a backup of the healed cell.
func (n *Nemesis) Backup(ctx context.Context) error {
	var broken error
	waited := cell.Wait(ctx, "there is a backup", func(ctx context.Context) error {
		_, refused, err := backUp(ctx, n.Cell.Replicas()[0].URL)
		broken = err
		return refused
	})
	return errors.Join(waited, broken)
}

// present makes a replica run this release.
func (n *Nemesis) present(r *cell.Replica) error {
	if n.Present == "" {
		return nil
	}
	err := n.keeper.terminate(r)
	r.Use(n.Present)
	return errors.Join(err, n.keeper.start(r))
}
