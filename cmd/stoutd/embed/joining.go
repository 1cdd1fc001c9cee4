package embed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/membership"
)

// joining returns the function by which a replica that joins a cell learns the
// members; nil for a replica that does not join.
func (r *Replica) joining() func(context.Context) ([]membership.Member, error) {
	c := r.config
	if len(c.Join) == 0 {
		return nil
	}
	return func(ctx context.Context) ([]membership.Member, error) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: r.security.joinTLS(), DisableKeepAlives: true}}
		return askToJoin(ctx, client, c.Cell, c.Join)
	}
}

// joinTLS trusts the system's CAs, the CA of the replicas' own connections and the CA
// of the API's clients, as they are in force. The replies have addresses only: the
// connections between replicas verify that a member answers there.
func (s security) joinTLS() *tls.Config {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	s.each(func(_ string, source *certs.Source) {
		for _, ca := range source.Set().CAs {
			pool.AddCert(ca)
		}
	})
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// askToJoin calls all URLs at the same time, and returns the first list of members.
func askToJoin(ctx context.Context, client *http.Client, name string, urls []string) ([]membership.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	type answer struct {
		members []membership.Member
		err     error
	}
	answers := make(chan answer, len(urls))
	for _, at := range urls {
		go func() {
			members, err := askOneToJoin(ctx, client, name, at)
			answers <- answer{members, err}
		}()
	}
	var errs []error
	for range urls {
		a := <-answers
		if a.err == nil {
			return a.members, nil
		}
		errs = append(errs, a.err)
	}
	return nil, errors.Join(errs...)
}

func askOneToJoin(ctx context.Context, client *http.Client, name, at string) ([]membership.Member, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+lockapi.RouteJoin+"?cell="+url.QueryEscape(name), nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxJoinBytes))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	if resp.StatusCode != http.StatusOK {
		refused := &lockapi.Error{}
		_ = json.Unmarshal(body, refused) // it remains empty if the body is no error of a replica
		switch {
		case refused.Directory != "":
			// That replica may be waiting for this one.
			return nil, fmt.Errorf("%s: the replica there is not a member either; it waits to become one", at)
		case refused.Detail != "":
			return nil, fmt.Errorf("%s: %s", at, refused.Detail)
		}
		return nil, fmt.Errorf("%s answers %s; is it the URL of a replica?", at, resp.Status)
	}
	var reply lockapi.Joining
	if err := json.Unmarshal(body, &reply); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	var members []membership.Member
	for _, r := range reply.Replicas {
		if lockapi.ValidateMemberID(r.ID) == nil && lockapi.ValidateRaftAddr(r.RaftAddr) == nil {
			members = append(members, membership.Member{ID: r.ID, RaftAddr: r.RaftAddr})
		}
	}
	if members == nil {
		return nil, fmt.Errorf("%s returned no members", at)
	}
	return members, nil
}

const (
	joinTimeout  = time.Second
	maxJoinBytes = 64 << 10
)
