package doctor

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// took formats a duration with two or three digits, including fractions of a
// millisecond.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + took(-max(d, -math.MaxInt64))
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// days formats the time until a date.
func days(d time.Duration) string {
	return format.Plural(int(d/(24*time.Hour)), "day")
}

// share formats a part of a whole in per cent.
func share(of, all float64) string { return fmt.Sprintf("%.0f%%", 100*of/all) }

// parts formats a rate in milliseconds per second.
func parts(r float64) string { return fmt.Sprintf("%.2g ms/s", 1000*r) }

func list(words []string) string { return strings.Join(words, ", ") }

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// seconds converts a metric to a duration, or to the longest one if it is out
// of range.
func seconds(s float64) time.Duration {
	if d := s * float64(time.Second); d > math.MinInt64 && d < math.MaxInt64 {
		return time.Duration(d)
	}
	return math.MaxInt64
}

// codeOf returns the code of a refusal, without its text.
func codeOf(err error) lockapi.Code {
	code, _ := errors.AsType[*lockapi.Error](err)
	return code.Code
}

func isUnauthenticated(err error) bool { return errors.Is(err, lockapi.CodeUnauthenticated) }
