// Command election is a web service that runs in many copies. One copy leads; the
// others redirect their callers to it.
//
//	election localhost:7301
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/recipe"
)

func main() {
	cell, err := client.New(strings.Split(os.Getenv("STOUT_SERVER"), ",")...)
	if err != nil {
		log.Fatal(err)
	}
	s := &service{address: os.Args[1]}
	go func() { log.Fatal(http.ListenAndServe(s.address, s)) }()
	err = recipe.Lead(context.Background(), cell, "/examples/election", []byte(s.address), recipe.Callbacks{
		Started: s.lead,
		Changed: func(leader recipe.Leader) { s.leader.Store(string(leader.Value)) },
	}, client.Name(s.address), client.TTL(5*time.Second))
	log.Fatal(err)
}

type service struct {
	address string
	token   atomic.Uint64 // of the present term; 0 if this copy does not lead
	leader  atomic.Value  // string: the leader's address, or empty
}

// lead works until the term ends.
func (s *service) lead(ctx context.Context, lead *recipe.Leadership) error {
	fmt.Println("leading with token", lead.Token())
	s.token.Store(lead.Token())
	<-ctx.Done()
	s.token.Store(0)
	return nil
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	leader, _ := s.leader.Load().(string)
	switch token := s.token.Load(); {
	case token != 0:
		// A real service sends the token with each write: this copy may have lost the
		// lead a moment ago.
		fmt.Fprintf(w, "%s leads, with token %d\n", s.address, token)
	case leader != "" && leader != s.address:
		http.Redirect(w, r, "http://"+leader+r.URL.Path, http.StatusTemporaryRedirect)
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "no leader at the moment", http.StatusServiceUnavailable)
	}
}
