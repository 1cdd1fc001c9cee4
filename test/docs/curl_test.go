package docs

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// curl implements the part of curl that the pages use, for machines without it.
// It ends the process.
func curl(args []string) {
	method, url, body, after := "", "", "", ""
	header := http.Header{}
	for i := 0; i < len(args); i++ {
		value := func() string {
			if i++; i == len(args) {
				fail("curl: " + args[i-1] + " has no value")
			}
			return args[i]
		}
		switch args[i] {
		case "-s", "-sN", "-N", "-sL": // Go follows redirects
		case "-X":
			method = value()
		case "-w":
			after = strings.ReplaceAll(value(), `\n`, "\n")
		case "-d":
			body = value()
			if method == "" {
				method = http.MethodPost
			}
		case "-H":
			name, text, _ := strings.Cut(value(), ":")
			header.Add(name, strings.TrimSpace(text))
		default:
			if strings.HasPrefix(args[i], "-") || url != "" {
				fail("curl: unknown argument " + args[i] + "?")
			}
			url = args[i]
		}
	}
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		fail(err)
	}
	if body != "" {
		header.Set("Content-Type", "application/x-www-form-urlencoded") // like curl
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fail(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(os.Stdout, resp.Body); err != nil {
		fail(err)
	}
	fmt.Print(after)
	os.Exit(0)
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}
