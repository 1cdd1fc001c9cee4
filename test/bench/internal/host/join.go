package host

import (
	"context"
	"errors"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// Joiner is a replica that runs and is to become a member.
type Joiner struct {
	ID      string
	replica *cell.Replica
}

// Join starts further replicas of our own cell, which is without TLS. They become
// members by Request, and are among the URLs at once.
func (c *Cell) Join(ids ...string) ([]*Joiner, error) {
	if c.own == nil {
		return nil, errors.New("only a cell of our own is given further replicas; leave --server out")
	}
	var out []*Joiner
	for _, id := range ids {
		r, err := c.own.Join(id)
		if err != nil {
			return nil, err
		}
		out = append(out, &Joiner{ID: id, replica: r})
		c.urls = append(c.urls, r.URL)
	}
	return out, nil
}

// Request is what makes it a member.
func (j *Joiner) Request(ctx context.Context) (lockapi.AddMemberRequest, error) {
	says, err := j.replica.Stranger(ctx)
	if err != nil {
		return lockapi.AddMemberRequest{}, err
	}
	return lockapi.AddMemberRequest{ID: j.ID, Directory: says.Directory, RaftAddr: j.replica.RaftAddr, URL: j.replica.URL}, nil
}
