// Command queue is a queue of work for many machines.
//
//	queue add JOB...
//	queue work
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
)

func main() {
	cell, err := client.New(strings.Split(os.Getenv("STOUT_SERVER"), ",")...)
	if err != nil {
		log.Fatal(err)
	}
	queue, err := recipe.NewQueue("/examples/queue/")
	if err != nil {
		log.Fatal(err)
	}
	switch os.Args[1] {
	case "add":
		err = add(context.Background(), cell, queue, os.Args[2:])
	case "work":
		err = queue.Work(context.Background(), cell, func(ctx context.Context, job recipe.Job) error {
			// The job is done again elsewhere if this fails, or if this machine dies.
			fmt.Printf("done: %s\n", job.Content)
			return nil
		})
	default:
		err = fmt.Errorf("unknown command %q: use add or work", os.Args[1])
	}
	if err != nil {
		log.Fatal(err)
	}
}

// add puts jobs into the queue, each exactly once, also if an answer is lost.
func add(ctx context.Context, cell *client.Client, queue recipe.Queue, jobs []string) error {
	session, err := cell.NewSession(ctx)
	if err != nil {
		return err
	}
	defer session.Close(ctx)
	for _, job := range jobs {
		name, err := queue.Add(ctx, session, []byte(job))
		if err != nil {
			return err
		}
		fmt.Printf("added %s as %s\n", job, name)
	}
	return nil
}
