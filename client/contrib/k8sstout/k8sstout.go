// Package k8sstout lets the leader election of client-go keep its record in a
// file of a cell, instead of a Lease of the Kubernetes API server:
//
//	lock, err := k8sstout.New(cell, "/controllers/scheduler", hostname)
//	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
//		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
//		Callbacks: …, ReleaseOnCancel: true,
//	})
//
// The election is client-go's: members compare the age of the record with their
// own clocks. It does not exclude two leaders if clocks run at different rates
// or a process pauses. Send Lock.Token with each write for that. In a program
// without client-go use recipe.Lead: its leader stops before the next one begins.
package k8sstout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// Lock is a resourcelock.Interface. Each candidate has its own.
type Lock struct {
	c        *client.Client
	path     string
	identity string

	mu       sync.Mutex // guards what follows
	revision uint64     // of the record that was read or written last; 0 for none
	token    uint64
}

var _ resourcelock.Interface = (*Lock)(nil)

// New returns a lock with its record at path. The identity must be unique among
// the candidates.
func New(c *client.Client, path, identity string) (*Lock, error) {
	if identity == "" {
		return nil, lockapi.Invalid("identity", "the identity of a candidate is empty: use a name that no other candidate has")
	}
	return &Lock{c: c, path: path, identity: identity}, lockapi.ValidatePath(path)
}

// patience bounds each call. When the election of client-go loses the cell, it
// reads the record once more before it reports the end of its lead. With its
// usual durations a longer read would last until the next leader begins.
const patience = 2 * time.Second

// resource names the record in errors of the Kubernetes API, which the election
// distinguishes by their reasons.
var resource = schema.GroupResource{Group: "stout", Resource: "files"}

// Get implements resourcelock.Interface.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	file, err := l.c.Get(ctx, l.path)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision = file.Revision
	if errors.Is(err, client.ErrNotFound) {
		l.token = 0
		return nil, nil, apierrors.NewNotFound(resource, l.path)
	}
	if err != nil {
		return nil, nil, err
	}
	var record resourcelock.LeaderElectionRecord
	if err := json.Unmarshal(file.Content, &record); err != nil {
		return nil, nil, fmt.Errorf("the file %s is not the record of an election: %w", l.path, err)
	}
	if record.HolderIdentity != l.identity {
		l.token = 0
	}
	return &record, file.Content, nil
}

// Create implements resourcelock.Interface.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, &record, client.IfAbsent(), apierrors.NewAlreadyExists(resource, l.path))
}

// Update implements resourcelock.Interface. It needs a record from Get, Create
// or Update, and fails if another candidate has written since.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	revision := l.revision
	l.mu.Unlock()
	changed := apierrors.NewConflict(resource, l.path, errors.New("the record has changed, or was not read: get it first"))
	if revision == 0 {
		return changed
	}
	return l.write(ctx, &record, client.IfRevision(revision), changed)
}

func (l *Lock) write(ctx context.Context, record *resourcelock.LeaderElectionRecord, condition client.WriteOption, refused error) error {
	content, err := json.Marshal(record)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stat, err := l.c.Put(ctx, l.path, content, condition)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision = stat.Revision // 0 after an error: the record must be read again
	switch {
	case errors.Is(err, client.ErrPrecondition):
		return refused
	case err != nil:
		return err
	case record.HolderIdentity != l.identity:
		l.token = 0
	case l.token == 0:
		l.token = stat.Revision
	}
	return nil
}

// Token returns a fencing token while this candidate leads, and 0 otherwise. It
// is the revision of the record that made it leader, and grows from one leader
// to the next.
func (l *Lock) Token() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token
}

// RecordEvent implements resourcelock.Interface. The cell has events of its own.
func (l *Lock) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (l *Lock) Identity() string { return l.identity }

// Describe implements resourcelock.Interface.
func (l *Lock) Describe() string { return l.path }
