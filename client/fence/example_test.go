package fence_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"

	"github.com/stoutlock/stout/client/fence"
)

// Guard a service. The client sends the token of its hold in a header.
func ExampleHandler() {
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("written with token", r.Header.Get(fence.HeaderToken))
	})
	tokens := new(fence.Memory) // fence.OpenFile keeps them over a restart
	guarded := fence.NewHandler(app, tokens, func(r *http.Request) string {
		if r.Method == http.MethodGet {
			return "" // not guarded
		}
		return "/billing/leader"
	})
	server := httptest.NewServer(guarded)
	defer server.Close()

	for _, token := range []uint64{41, 42, 41} { // the last one is late
		req, err := http.NewRequest(http.MethodPost, server.URL+"/invoices", nil)
		if err != nil {
			log.Fatal(err)
		}
		req.Header.Set(fence.HeaderToken, strconv.FormatUint(token, 10)) // held.Token()
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	// Output:
	// written with token 41
	// 200 OK
	// written with token 42
	// 200 OK
	// 412 Precondition Failed
}

// Guard an object. The type bucket of this example, in bucket_test.go, reaches
// an object store by requests with If-Match and If-None-Match.
func ExampleObjects() {
	server := httptest.NewServer(&objectStore{objects: make(map[string][]byte)})
	defer server.Close()
	objects := fence.Objects{Bucket: bucket{server.URL}}
	ctx := context.Background()

	add := func(token uint64, line string) error {
		return objects.Update(ctx, "manifest", token, func(content []byte) ([]byte, error) {
			return append(content, line...), nil
		})
	}
	fmt.Println(add(41, "part 1\n"))
	fmt.Println(add(42, "part 2\n"))
	fmt.Println("late:", errors.Is(add(41, "part 3\n"), fence.ErrStale))
	content, token, err := objects.Get(ctx, "manifest")
	fmt.Printf("%s%d %v\n", content, token, err)
	// Output:
	// <nil>
	// <nil>
	// late: true
	// part 1
	// part 2
	// 42 <nil>
}
