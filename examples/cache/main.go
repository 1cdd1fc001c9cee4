// Command cache keeps the files below a directory in memory, and answers reads from
// there. It follows each change.
//
//	cache localhost:7301
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/stoutlock/stout/client"
)

const dir = "/examples/cache/"

// cache has the contents by path, as of a revision of the cell.
type cache struct {
	mu       sync.RWMutex
	contents map[string][]byte
	revision uint64
	ready    bool // all files have been read once
}

func main() {
	cell, err := client.New(strings.Split(os.Getenv("STOUT_SERVER"), ",")...)
	if err != nil {
		log.Fatal(err)
	}
	c := &cache{contents: map[string][]byte{}}
	go func() { log.Fatal(http.ListenAndServe(os.Args[1], c)) }()
	// Follow continues at another replica when one fails. It ends with an error only if
	// the cell refuses.
	for change, err := range cell.Follow(context.Background(), dir, client.Contents()) {
		if err != nil {
			log.Fatal(err)
		}
		c.apply(change)
	}
}

func (c *cache) apply(change client.FileChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case change.Synced:
		c.ready = true
	case change.File == nil:
		delete(c.contents, change.Path)
	default:
		c.contents[change.Path] = change.File.Content
	}
	c.revision = max(c.revision, change.Revision)
}

func (c *cache) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	content, found := c.contents[dir+strings.TrimPrefix(r.URL.Path, "/")]
	if !found || !c.ready {
		http.NotFound(w, r)
		return
	}
	fmt.Fprintf(w, "%s (as of revision %d)\n", content, c.revision)
}
