package embed_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/cmd/stoutd/embed"
)

// A cell of one replica within the program, with the next free ports.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "cell-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	c := config.Default()
	c.Dev, c.DataDir, c.Stderr = true, dir, io.Discard
	c.APIListen, c.RaftListen = "127.0.0.1:0", "127.0.0.1:0"
	r, err := embed.Start(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Stop(ctx)
	select {
	case <-r.Ready():
	case err := <-r.Failed():
		log.Fatal(err)
	}

	cell, err := client.New(r.URL())
	if err != nil {
		log.Fatal(err)
	}
	session, err := cell.NewSession(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
	lock, err := session.Lock(ctx, "/jobs/demo")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock.Path(), lock.Token() > 0)
	// Output: /jobs/demo true
}
