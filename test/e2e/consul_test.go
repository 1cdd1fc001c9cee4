package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/test/cell"
)

// door sends a request to the door of a replica and returns its answer.
func door(ctx context.Context, r *cell.Replica, method, path, body string) (status int, index uint64, text string, err error) {
	resp, answer, err := cell.Exchange(ctx, nil, method, r.Door+"/v1/"+path, nil, []byte(body))
	if err != nil {
		return 0, 0, "", err
	}
	index, _ = strconv.ParseUint(resp.Header.Get("X-Consul-Index"), 10, 64)
	return resp.StatusCode, index, string(answer), nil
}

func keySession(ctx context.Context, r *cell.Replica, body string) (string, error) {
	status, _, text, err := door(ctx, r, http.MethodPut, "session/create", body)
	var opened struct{ ID string }
	if err == nil && (json.Unmarshal([]byte(text), &opened) != nil || opened.ID == "") {
		err = fmt.Errorf("%d %s", status, text)
	}
	return opened.ID, err
}

// consulKey is a key as the door shows it.
type consulKey struct {
	LockIndex, CreateIndex, ModifyIndex uint64
	Session                             string
	Value                               []byte
}

func readKey(ctx context.Context, r *cell.Replica, path string) (k consulKey, index uint64, err error) {
	status, index, text, err := door(ctx, r, http.MethodGet, "kv/"+path, "")
	var all []consulKey
	if err == nil && (json.Unmarshal([]byte(text), &all) != nil || len(all) != 1 || index == 0) {
		err = fmt.Errorf("%s: %d %s, index %d", path, status, text, index)
	}
	if err != nil {
		return k, 0, err
	}
	return all[0], index, nil
}

// TestConsulDoor: each replica's door shows the same keys. A change wakes queries
// at the others. After the master's end, its sessions and locks are there, and
// indexes have not gone back.
func TestConsulDoor(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm, Door: true})
	master := c.Ready(t)
	ctx := cell.Bounded(t)
	all := c.Replicas()
	session, err := keySession(ctx, all[0], `{"TTL":"1h","LockDelay":"0s"}`)
	must(t, err)
	var last uint64
	for i, a := range all {
		for j, b := range all {
			status, _, text, err := door(ctx, a, http.MethodPut, "kv/every/door?acquire="+session, fmt.Sprint(i, j))
			if err != nil || status != http.StatusOK || text != "true" {
				t.Fatalf("acquire at %s: %d %s, %v", a.ID, status, text, err)
			}
			k, index, err := readKey(ctx, b, "every/door")
			must(t, err)
			if string(k.Value) != fmt.Sprint(i, j) || k.Session != session || k.ModifyIndex <= last || index < k.ModifyIndex {
				t.Errorf("written at %s, %s shows %+v at index %d after %d", a.ID, b.ID, k, index, last)
			}
			last = k.ModifyIndex
		}
	}

	// A query waits at each replica and ends with the change.
	woken := make(chan error, len(all))
	for _, r := range all {
		go func() {
			_, index, text, err := door(ctx, r, http.MethodGet, fmt.Sprintf("kv/every/door?raw&wait=10m&index=%d", last), "")
			if err == nil && (index <= last || text != "changed") {
				err = fmt.Errorf("%s: index %d after %d: %s", r.ID, index, last, text)
			}
			woken <- err
		}()
	}
	_, _, _, err = door(ctx, all[1], http.MethodPut, "kv/every/door", "changed")
	must(t, err)
	for range all {
		must(t, <-woken)
	}

	before, _, err := readKey(ctx, master, "every/door")
	must(t, err)
	must(t, master.Kill())
	var other *cell.Replica
	for _, r := range all {
		if r != master {
			other = r
		}
	}
	must(t, cell.Wait(ctx, "another master serves the key", func(ctx context.Context) error {
		k, index, err := readKey(ctx, other, "every/door")
		if err == nil && (k.Session != session || k.ModifyIndex != before.ModifyIndex || k.LockIndex != before.LockIndex || index < before.ModifyIndex) {
			t.Errorf("after the master's end: %+v at index %d, before %+v", k, index, before)
		}
		return err
	}))
	status, _, text, err := door(ctx, other, http.MethodPut, "session/renew/"+session, "")
	if err != nil || status != http.StatusOK || !strings.Contains(text, `"TTL":"1h"`) {
		t.Errorf("renew: %d %s, %v", status, text, err)
	}
	status, _, text, err = door(ctx, other, http.MethodPut, "session/destroy/"+session, "")
	if err != nil || text != "true" {
		t.Errorf("destroy: %d %s, %v", status, text, err)
	}
	k, _, err := readKey(ctx, other, "every/door")
	must(t, err)
	if k.Session != "" || k.LockIndex != 1 || k.ModifyIndex <= before.ModifyIndex {
		t.Errorf("after the session's end: %+v", k)
	}
}

// TestConsulSessionExpires: a session that is not renewed ends between its TTL
// and twice that, and its key is deleted.
func TestConsulSessionExpires(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Size: 1, Args: calm, Door: true})
	r := c.Ready(t)
	ctx := cell.Bounded(t)
	session, err := keySession(ctx, r, `{"TTL":"10s","Behavior":"delete"}`)
	must(t, err)
	began := time.Now()
	_, _, text, err := door(ctx, r, http.MethodPut, "kv/ends?acquire="+session, "x")
	if err != nil || text != "true" {
		t.Fatalf("%s, %v", text, err)
	}
	_, index, err := readKey(ctx, r, "ends")
	must(t, err)
	status, _, _, err := door(ctx, r, http.MethodGet, fmt.Sprintf("kv/ends?wait=10m&index=%d", index), "")
	if took := time.Since(began); err != nil || status != http.StatusNotFound || took < 10*time.Second {
		t.Errorf("after %v: %d, %v", took, status, err)
	}
	if _, _, text, err := door(ctx, r, http.MethodPut, "kv/ends?acquire="+session, "x"); err != nil || !strings.HasPrefix(text, "invalid session") {
		t.Errorf("%s, %v", text, err)
	}
	other, err := keySession(ctx, r, "")
	_, _, text, again := door(ctx, r, http.MethodPut, "kv/ends?acquire="+other, "x")
	if err = errors.Join(err, again); err != nil || text != "false" {
		t.Errorf("within the lock-delay: %s, %v", text, err)
	}
}
