// Package ask calls the replicas of a cell one by one, as the caller: once each, without
// the client's retries and redirects.
package ask

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/stoutlock/stout/lockapi"
)

// Poller calls replicas.
type Poller struct {
	Servers []string                              // named by the caller: base URLs and DNS names
	TLS     func() *tls.Config                    // nil for the system's CAs
	Token   func(context.Context) (string, error) // nil for none
	Agent   string
	Via     http.RoundTripper // nil for a new connection per call
}

// ErrNoAnswer is the error of a call that timed out.
var ErrNoAnswer = errors.New("no answer in time")

const mostAnswer = 8 << 20

// Get asks for a route of the replica at a base URL.
func (a Poller) Get(ctx context.Context, base, route string, out any) (http.Header, error) {
	return a.Call(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+route, nil, out)
}

// Call makes one call, with in as its body unless nil. It decodes the answer
// into out: metrics into a *Metrics, other answers as JSON, and nothing into
// nil. An answer other than 200 is a *lockapi.Error if it has the form of one.
func (a Poller) Call(ctx context.Context, method, url string, in, out any) (http.Header, error) {
	resp, err := a.Send(ctx, method, url, in)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer := io.LimitReader(resp.Body, mostAnswer)
	if resp.StatusCode != http.StatusOK {
		refused := new(lockapi.Error)
		if json.NewDecoder(answer).Decode(refused) != nil || refused.Code == "" {
			return resp.Header, fmt.Errorf("the answer %s does not come from stoutd", resp.Status)
		}
		return resp.Header, refused
	}
	switch out := out.(type) {
	case nil:
		_, err = io.Copy(io.Discard, answer)
	case *Metrics:
		*out, err = ReadMetrics(answer)
	default:
		if err = json.NewDecoder(answer).Decode(out); err != nil {
			err = fmt.Errorf("the answer does not come from stoutd: %w", err)
		}
	}
	return resp.Header, err
}

// Send makes one call, with in as its body unless nil. The token goes only to a
// URL that MayCall allows.
func (a Poller) Send(ctx context.Context, method, url string, in any) (*http.Response, error) {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, &body)
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // prevents a retry by the library
	req.Header.Set("User-Agent", a.Agent)
	if a.Token != nil && a.MayCall(url) == nil {
		token, err := a.Token(ctx)
		if err != nil {
			return nil, fmt.Errorf("no token to send: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	via := a.Via
	if via == nil {
		t := &http.Transport{DisableKeepAlives: true}
		if a.TLS != nil {
			t.TLSClientConfig = a.TLS()
		}
		via = t
	}
	resp, err := via.RoundTrip(req)
	switch {
	case IsTimeout(err):
		return nil, ErrNoAnswer
	case err != nil:
		return nil, Innermost(err)
	}
	return resp, nil
}

// MayCall returns why a URL from the cell must not be called. A caller that
// uses https must not send requests, let alone a token, over http.
func (a Poller) MayCall(url string) error {
	isSecure := func(u string) bool { return strings.HasPrefix(u, "https://") || strings.HasPrefix(u, "dns+https:") }
	named := func(u string) bool { return strings.HasPrefix(url+"/", strings.TrimRight(u, "/")+"/") }
	if isSecure(url) || slices.ContainsFunc(a.Servers, named) || !slices.ContainsFunc(a.Servers, isSecure) {
		return nil
	}
	return fmt.Errorf("its URL %s leads from https to http", url)
}

// IsName reports whether a server is a DNS name, which may stand for many
// replicas.
func IsName(server string) bool {
	return strings.HasPrefix(server, "dns:") || strings.HasPrefix(server, "dns+") || !strings.Contains(server, "://")
}

// Each calls f for all items concurrently, and returns when all calls have
// returned.
func Each[T any](items []T, f func(i int, item T)) {
	var all sync.WaitGroup
	for i, item := range items {
		all.Go(func() { f(i, item) })
	}
	all.Wait()
}

// Sleep waits for d, or returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// InOffice reports whether a view shows a master that holds its lease.
func InOffice(cell lockapi.Cell) bool { return cell.Master != nil && cell.Lease.Held }

// IsRefusal reports whether an error is a replica's answer.
func IsRefusal(err error) bool {
	_, ok := errors.AsType[*lockapi.Error](err)
	return ok
}

// IsDenial reports whether a replica refused the caller's credential or rights.
func IsDenial(err error) bool {
	return errors.Is(err, lockapi.CodePermissionDenied) || errors.Is(err, lockapi.CodeUnauthenticated)
}

// IsTimeout reports whether an error is a timeout.
func IsTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout()
}

// Innermost returns the innermost error, without the names of calls around it.
func Innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// Metrics are a replica's metrics, by name.
type Metrics map[string]*dto.MetricFamily

// ReadMetrics reads Prometheus's text format.
func ReadMetrics(r io.Reader) (Metrics, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(r)
}

// Value returns the first value of a metric with the given labels, as
// alternating names and values.
func (m Metrics) Value(name string, labels ...string) (value float64, ok bool) {
	m.Each(name, func(label func(string) string, v float64) {
		for i := 0; i < len(labels); i += 2 {
			if label(labels[i]) != labels[i+1] {
				return
			}
		}
		if !ok {
			value, ok = v, true
		}
	})
	return value, ok
}

// Each calls f with each value of a metric and its labels.
func (m Metrics) Each(name string, f func(label func(name string) string, value float64)) {
	for _, one := range m[name].GetMetric() {
		value := one.GetUntyped().GetValue()
		if one.Gauge != nil {
			value = one.Gauge.GetValue()
		} else if one.Counter != nil {
			value = one.Counter.GetValue()
		}
		f(func(name string) string {
			for _, l := range one.Label {
				if l.GetName() == name {
					return l.GetValue()
				}
			}
			return ""
		}, value)
	}
}

// Within returns the bound of the first bucket of a histogram without labels
// that covers the share q of the observations, and their number. It is infinite
// beyond the last bucket, and never less than the quantile.
func (m Metrics) Within(name string, q float64) (bound float64, of uint64) {
	h := m.histogram(name)
	of = h.GetSampleCount()
	buckets := slices.SortedFunc(slices.Values(h.GetBucket()), func(a, b *dto.Bucket) int { return cmp.Compare(a.GetUpperBound(), b.GetUpperBound()) })
	for _, b := range buckets {
		if float64(b.GetCumulativeCount()) >= q*float64(of) {
			return b.GetUpperBound(), of
		}
	}
	return math.Inf(1), of
}

// UpTo returns how many observations are at most bound.
func (m Metrics) UpTo(name string, bound float64) (most uint64) {
	for _, b := range m.histogram(name).GetBucket() {
		if b.GetUpperBound() <= bound {
			most = max(most, b.GetCumulativeCount())
		}
	}
	return most
}

func (m Metrics) histogram(name string) *dto.Histogram {
	if all := m[name].GetMetric(); len(all) > 0 {
		return all[0].GetHistogram()
	}
	return nil
}
