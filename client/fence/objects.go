package fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/stoutlock/stout/lockapi"
)

// ErrChanged is the error of a Bucket for a condition that does not hold.
var ErrChanged = errors.New("fence: the object has changed")

// Bucket is the part of an object store that Objects needs. The example of
// Objects implements it over HTTP, as S3, GCS and Azure serve it.
type Bucket interface {
	// Get returns the object at a key with its ETag, or fs.ErrNotExist. It must
	// see every completed Put.
	Get(ctx context.Context, key string) (content []byte, etag string, err error)
	// Put replaces the object if its ETag is etag (If-Match). An empty etag means
	// that the object must not exist (If-None-Match: *). If the condition does not
	// hold, Put returns ErrChanged. Two different contents must have different
	// ETags. Put makes one request: turn the retries of an SDK off. After a lost
	// answer the second request finds the first one's write, and Update would make
	// its change again.
	Put(ctx context.Context, key string, content []byte, etag string) error
}

// Objects guards the objects of a Bucket, each by itself: an object has the
// token of its last write, in a line before its content. Readers call Get. The
// token is in the content, since the ETag of S3 depends on the content only.
//
// A late write to one object is refused once a later holder has written the
// same object. A holder of data in several objects therefore begins with one of
// them, the manifest: it calls Update, writes new data under new keys, and lists
// these in the manifest with the next Update.
type Objects struct{ Bucket Bucket }

const mark = "stout-token "

// Get returns the content of an object and the token of its last write. An
// object without a token has 0. A missing object is fs.ErrNotExist.
func (o Objects) Get(ctx context.Context, key string) (content []byte, token uint64, err error) {
	stored, _, err := o.Bucket.Get(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	content, token = unmark(stored)
	return content, token, nil
}

// Update replaces an object. change gets the present content, nil if there is
// no object, and returns the new one. It is called again if another write came
// in between. An error of change ends Update, and nothing is written.
//
// Update returns a *StaleError if the object has a higher token. Other errors
// are the Bucket's: the object may then have been written or not.
//
// A new holder that calls Update once, even without a change, shuts out its
// predecessors from that object.
func (o Objects) Update(ctx context.Context, key string, token uint64, change func(content []byte) ([]byte, error)) error {
	if err := validate(key, token); err != nil {
		return err
	}
	for {
		stored, etag, err := o.Bucket.Get(ctx, key)
		var content []byte
		switch {
		case errors.Is(err, fs.ErrNotExist):
			etag = ""
		case err != nil:
			return fmt.Errorf("fence: read %s: %w", lockapi.Clip(key), err)
		case etag == "":
			return fmt.Errorf("fence: the object store returns no ETag for %s: it cannot write conditionally", lockapi.Clip(key))
		default:
			var highest uint64
			if content, highest = unmark(stored); highest > token {
				return &StaleError{Resource: key, Token: token, Highest: highest}
			}
		}
		changed, err := change(content)
		if err != nil {
			return err
		}
		line := fmt.Appendf(nil, "%s%d\n", mark, token)
		switch err := o.Bucket.Put(ctx, key, append(line, changed...), etag); {
		case err == nil:
			return nil
		case !errors.Is(err, ErrChanged):
			return fmt.Errorf("fence: write %s: %w", lockapi.Clip(key), err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

// unmark separates an object's content from its token; 0 without a token.
func unmark(stored []byte) (content []byte, token uint64) {
	rest, marked := bytes.CutPrefix(stored, []byte(mark))
	if !marked {
		return stored, 0
	}
	line, content, ended := bytes.Cut(rest, []byte("\n"))
	token, err := strconv.ParseUint(string(line), 10, 64)
	if err != nil || !ended {
		return stored, 0
	}
	return content, token
}
