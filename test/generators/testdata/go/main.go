// Program client uses a lock through a client that oapi-codegen made from
// openapi.yaml. It prints the token of its grant.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/stoutlock/stout/test/generators/client/stout"
)

// path is the lock /jobs/nightly. The client sends its slash as %2F.
const path = "jobs/nightly"

func main() {
	token, err := use(context.Background(), os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(token)
}

// use makes the calls of a lock's life at the replica.
func use(ctx context.Context, replica string) (token int64, err error) {
	cell, err := stout.NewClientWithResponses(replica)
	if err != nil {
		return 0, err
	}
	mine, err := open(ctx, cell)
	if err != nil {
		return 0, err
	}
	acquired, err := cell.AcquireWithResponse(ctx, path, nil, stout.AcquireJSONRequestBody{Session: mine})
	if err != nil {
		return 0, err
	}
	held := acquired.JSON200
	if held == nil || held.Path != "/"+path || held.State != stout.HeldStateHeld {
		return 0, unexpected("acquire", acquired.HTTPResponse, acquired.Body)
	}
	read, err := cell.ReadLockWithResponse(ctx, path, nil)
	if err != nil {
		return 0, err
	}
	if lock := read.JSON200; lock == nil || len(lock.Holders) != 1 || lock.Holders[0].Session != mine || lock.Holders[0].Token != held.Token {
		return 0, unexpected("read", read.HTTPResponse, read.Body)
	}

	// Another session is refused, with the holder in the problem document.
	other, err := open(ctx, cell)
	if err != nil {
		return 0, err
	}
	refused, err := cell.AcquireWithResponse(ctx, path, nil, stout.AcquireJSONRequestBody{Session: other})
	if err != nil {
		return 0, err
	}
	if problem := refused.ApplicationproblemJSON423; problem == nil || problem.Code != stout.CodeLockHeld || (*problem.Holders)[0].Session != mine {
		return 0, unexpected("acquire for another session", refused.HTTPResponse, refused.Body)
	}

	wait := stout.WaitMS(50)
	kept, err := cell.KeepaliveWithResponse(ctx, mine, nil, stout.KeepaliveJSONRequestBody{WaitMs: &wait})
	if err != nil {
		return 0, err
	}
	if kept.JSON200 == nil || kept.JSON200.TtlMs != 12000 || len(kept.JSON200.Events) != 0 {
		return 0, unexpected("keepalive", kept.HTTPResponse, kept.Body)
	}
	released, err := cell.ReleaseWithResponse(ctx, path, &stout.ReleaseParams{Session: mine, Token: &held.Token})
	if err != nil {
		return 0, err
	}
	if released.JSON200 == nil || !released.JSON200.Released {
		return 0, unexpected("release", released.HTTPResponse, released.Body)
	}
	for _, id := range []string{mine, other} {
		closed, err := cell.CloseSessionWithResponse(ctx, id, nil)
		if err != nil {
			return 0, err
		}
		if closed.StatusCode() != http.StatusNoContent {
			return 0, unexpected("close", closed.HTTPResponse, closed.Body)
		}
	}
	return held.Token, nil
}

// open returns the id of a new session.
func open(ctx context.Context, cell *stout.ClientWithResponses) (string, error) {
	name := "oapi-codegen"
	opened, err := cell.OpenSessionWithResponse(ctx, nil, stout.OpenSessionJSONRequestBody{Name: &name})
	if err != nil {
		return "", err
	}
	if opened.JSON201 == nil {
		return "", unexpected("open", opened.HTTPResponse, opened.Body)
	}
	return opened.JSON201.Id, nil
}

func unexpected(call string, response *http.Response, body []byte) error {
	return fmt.Errorf("%s: unexpected answer %s: %s", call, response.Status, body)
}
