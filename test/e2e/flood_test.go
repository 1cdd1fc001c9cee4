package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/jwttest"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// flood calls without end over a number of connections, until its context ends.
func flood(ctx context.Context, connections int, request func(connection int) (*http.Request, error)) (calls func() int64) {
	var n atomic.Int64
	var all sync.WaitGroup
	for i := range connections {
		all.Go(func() {
			via := &http.Transport{}
			defer via.CloseIdleConnections()
			for ctx.Err() == nil {
				req, err := request(i)
				if err != nil {
					return
				}
				resp, err := via.RoundTrip(req.WithContext(ctx))
				if err != nil {
					continue
				}
				_ = resp.Body.Close()
				n.Add(1)
			}
		})
	}
	return func() int64 { all.Wait(); return n.Load() }
}

// TestFloodCostsLittle measures what principals that call without end cost
// another one: its writes a second while they do, as a fraction of its writes
// just before. With a quota of calls per second that is a small part.
func TestFloodCostsLittle(t *testing.T) {
	testrun.Nightly(t)
	issuer := jwttest.New()
	keys := filepath.Join(t.TempDir(), "keys.json")
	must(t, os.WriteFile(keys, issuer.Keys(), 0o600))
	c := cell.New(t, cell.Options{Args: []string{"--jwt-issuer=" + jwttest.Name, "--jwt-audience=" + jwttest.Audience, "--jwt-keys=" + keys}})
	master := c.Ready(t)
	root := call[lockapi.Token](t, master, http.MethodPost, lockapi.RouteEnable, nil)
	admin := bearing(root.Secret)
	operate := func(method, path string, in any) {
		t.Helper()
		_, err := through[map[string]any](t.Context(), admin, master, method, path, in)
		must(t, err)
	}
	operate(http.MethodPut, lockapi.RouteCellAccess, lockapi.CellAccess{Observe: []string{"anonymous"}, Operate: []string{}})
	operate(http.MethodPut, lockapi.RouteRules+"/p", lockapi.AccessLists{Read: []string{"user:reader"}, Write: []string{"user:worker"}})
	secret := func(name string) string {
		token, err := through[lockapi.Token](t.Context(), admin, master, http.MethodPost, lockapi.RouteTokens, lockapi.TokenRequest{Principal: "user:" + name})
		must(t, err)
		return token.Secret
	}
	as := func(secret, method, path, body string) (*http.Request, error) {
		req, err := http.NewRequest(method, master.URL+path, strings.NewReader(body))
		if err == nil {
			req.Header.Set("Authorization", "Bearer "+secret)
		}
		return req, err
	}
	worker, stranger, reader := secret("worker"), secret("stranger"), secret("reader")
	var company, employees []string
	for i := range 32 {
		company = append(company, secret(fmt.Sprint("company-", i)))
		employees = append(employees, issuer.Token(fmt.Sprint("employee-", i), time.Hour, nil))
	}
	work := func(d time.Duration) float64 {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		began := time.Now()
		done := flood(ctx, 8, func(i int) (*http.Request, error) {
			return as(worker, http.MethodPut, fmt.Sprint(lockapi.RouteFiles, "/p/", i), "x")
		})()
		return float64(done) / time.Since(began).Seconds()
	}
	const connections, rounds, phase = 64, 7, 2 * time.Second
	for _, bounded := range []bool{false, true} {
		if bounded {
			operate(http.MethodPut, lockapi.RouteQuotas+"/user:worker", lockapi.QuotaLimits{CallsPerSecond: new(int64(1_000_000))})
			operate(http.MethodPut, lockapi.RouteQuotas+"/*", lockapi.QuotaLimits{CallsPerSecond: new(int64(5))})
		}
		for _, attack := range []struct {
			name    string
			request func(int) (*http.Request, error)
		}{
			{"of no rights", func(int) (*http.Request, error) {
				return as(stranger, http.MethodGet, lockapi.RouteFiles+"/p/1", "")
			}},
			{"of few rights", func(int) (*http.Request, error) { return as(reader, http.MethodGet, lockapi.RouteFiles+"/p/1", "") }},
			{"32 under *", func(i int) (*http.Request, error) {
				return as(company[i%len(company)], http.MethodGet, lockapi.RouteFiles+"/p/1", "")
			}},
			{"32 of a JWT issuer", func(i int) (*http.Request, error) {
				return as(employees[i%len(employees)], http.MethodGet, lockapi.RouteFiles+"/p/1", "")
			}},
		} {
			var kept, rates, calls []float64
			for range rounds {
				calm := work(phase)
				ctx, cancel := context.WithCancel(t.Context())
				ended := flood(ctx, connections, attack.request)
				work(phase / 4) // the burst is over
				busy := work(phase)
				cancel()
				calls = append(calls, float64(ended())/(phase+phase/4).Seconds())
				kept, rates = append(kept, busy/calm), append(rates, calm)
			}
			for _, all := range [][]float64{kept, rates, calls} {
				slices.Sort(all)
			}
			t.Logf("a flood of %d connections, principals %s, with a quota: %v: %.0f calls/s; the others keep %.0f %% (%.0f to %.0f) of %.0f writes/s",
				connections, attack.name, bounded, calls[rounds/2], 100*kept[rounds/2], 100*kept[0], 100*kept[rounds-1], rates[rounds/2])
			if bounded && kept[rounds/2] < 0.5 {
				t.Errorf("principals %s cost the others more than half", attack.name)
			}
		}
	}
}
