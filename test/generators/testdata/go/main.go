// Program client uses a lock through a client that oapi-codegen made from
// openapi.yaml. It prints the token of its grant.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

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

	if err := useFile(ctx, cell, held.Sequencer); err != nil {
		return 0, err
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

// useFile writes, reads and deletes a file that only the holder of the lock may
// write.
func useFile(ctx context.Context, cell *stout.ClientWithResponses, sequencer stout.Sequencer) error {
	const content = "step 1"
	guard := stout.Guard{sequencer}
	written, err := cell.PutFileWithBodyWithResponse(ctx, path, &stout.PutFileParams{Sequencer: &guard}, "text/plain", strings.NewReader(content))
	if err != nil {
		return err
	}
	if written.JSON201 == nil || written.JSON201.Size != len(content) {
		return unexpected("put", written.HTTPResponse, written.Body)
	}
	read, err := cell.ReadFileWithResponse(ctx, path, nil)
	if err != nil {
		return err
	}
	if string(read.Body) != content || read.Headers200.StoutRevision < written.JSON201.Revision {
		return unexpected("get", read.HTTPResponse, read.Body)
	}
	deleted, err := cell.DeleteFileWithResponse(ctx, path, &stout.DeleteFileParams{IfMatch: &read.Headers200.ETag})
	if err != nil {
		return err
	}
	if deleted.JSON200 == nil || !deleted.JSON200.Deleted {
		return unexpected("delete", deleted.HTTPResponse, deleted.Body)
	}
	return nil
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
