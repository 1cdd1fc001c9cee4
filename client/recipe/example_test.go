//go:build unix

package recipe_test

import (
	"context"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
)

// Lead, and publish the address. The callbacks run again after each new
// election.
func ExampleLead() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cell := newCell()
	err := recipe.Lead(ctx, cell, "/billing/leader", []byte("10.0.0.7:80"), recipe.Callbacks{
		Started: func(ctx context.Context, office *recipe.Leadership) error {
			leader, err := recipe.Now(ctx, cell, "/billing/leader")
			fmt.Printf("leading at %s\n", leader.Value)
			// Work here until ctx ends, and send office.Token with it.
			return err
		},
		Stopped: func() { fmt.Println("no longer") },
	}, client.Name("billing@host7"))
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// leading at 10.0.0.7:80
	// no longer
}

// Campaign once, for one term of office.
func ExampleCampaign() {
	ctx := context.Background()
	cell := newCell()
	session, err := cell.NewSession(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
	office, err := recipe.Campaign(ctx, session, "/search/leader", []byte("host1"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("leading:", office.Err() == nil)
	// client.While makes the write fail once the office has ended.
	_, err = session.Put(ctx, "/search/index", []byte("v2"), client.While(office.Held()))
	fmt.Println("written:", err == nil)
	if err := office.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	leader, err := recipe.Now(ctx, cell, "/search/leader")
	fmt.Println("has a leader:", leader.Revision > 0, err)
	// Output:
	// leading: true
	// written: true
	// has a leader: false <nil>
}

// Register as a member, and list the members.
func ExampleMembers() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cell := newCell()
	go recipe.Stay(ctx, cell, "/web/members/", "host1", []byte("10.0.0.1:80"))
	for members, err := range recipe.Members(ctx, cell, "/web/members/") {
		if err != nil {
			log.Fatal(err)
		}
		if len(members) > 0 {
			fmt.Printf("%s at %s\n", members[0].Name, members[0].Value)
			break
		}
	}
	// Output: host1 at 10.0.0.1:80
}

// A limit that operators change at run time: stout put /app/limit 20.
func ExampleFollowConfig() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cell := newCell()
	limit, err := recipe.FollowConfig(ctx, cell, "/app/limit", 10, func(content []byte) (int, error) {
		return strconv.Atoi(string(content))
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(limit.Value())
	changed := limit.Changed()
	if _, err := cell.Put(ctx, "/app/limit", []byte("20")); err != nil {
		log.Fatal(err)
	}
	<-changed
	fmt.Println(limit.Value())
	// Output:
	// 10
	// 20
}

// Programs start only after the schema has changed.
func ExampleAwait() {
	ctx := context.Background()
	cell := newCell()
	session, err := cell.NewSession(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
	if err := recipe.Raise(ctx, session, "/db/migrating", client.Ephemeral()); err != nil {
		log.Fatal(err)
	}
	go func() {
		fmt.Println("changing the schema")
		_ = recipe.Lower(ctx, session, "/db/migrating")
	}()
	if err := recipe.Await(ctx, cell, "/db/migrating"); err != nil {
		log.Fatal(err)
	}
	fmt.Println("starting")
	// Output:
	// changing the schema
	// starting
}

// Work through a queue of jobs.
func ExampleQueue() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cell := newCell()
	session, err := cell.NewSession(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
	queue, err := recipe.NewQueue("/mail/")
	if err != nil {
		log.Fatal(err)
	}
	for _, to := range []string{"alice", "bob"} {
		if _, err := queue.Add(ctx, session, []byte(to)); err != nil {
			log.Fatal(err)
		}
	}
	err = queue.Work(ctx, cell, func(ctx context.Context, job recipe.Job) error {
		fmt.Printf("mail to %s\n", job.Content)
		if string(job.Content) == "bob" {
			stop()
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// mail to alice
	// mail to bob
	// context canceled
}

// Hold a lock for as long as the program runs.
func ExampleHold() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cell := newCell()
	err := recipe.Hold(ctx, cell, "/mail/sender", func(ctx context.Context, held *client.Held) error {
		fmt.Println("this copy sends the mail")
		stop()
		<-ctx.Done() // send until then
		return context.Cause(ctx)
	})
	fmt.Println(err)
	// Output:
	// this copy sends the mail
	// context canceled
}

// Run a job on one machine each day, on any of them.
func ExampleEachPeriod() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cell := newCell()
	err := recipe.EachPeriod(ctx, cell, "/jobs/report", 24*time.Hour, func(ctx context.Context, day time.Time, held *client.Held) error {
		fmt.Println("the day begins at", day.Format(time.TimeOnly))
		stop()
		return nil
	})
	fmt.Println(err)
	// Output:
	// the day begins at 00:00:00
	// context canceled
}
