package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// value reads and writes one field of a Config as text.
type value struct {
	kind  string // the form of the text, for the help
	field any    // pointer to the field, which identifies the setting
	text  bool   // any text, which a file may have to quote
	get   func() string
	// list returns the texts of a field with several values; nil for others.
	list func() []string
	// set reads the texts given, in order. A field with one value takes the last.
	set func([]string) error
	// below and above compare the field with a limit; nil if it has no order.
	below, above func(limit string) bool
}

// texts returns the value in the form that set reads.
func (v value) texts() []string {
	if v.list != nil {
		return v.list()
	}
	return []string{v.get()}
}

// scalar makes a value from the functions that read and write its text. The error
// of read describes a valid text.
func scalar[T any](kind string, field *T, read func(string) (T, error), write func(T) string) value {
	return value{
		kind: kind, field: field,
		get: func() string { return write(*field) },
		set: func(texts []string) error {
			v, err := read(texts[len(texts)-1])
			if err == nil {
				*field = v
			}
			return err
		},
	}
}

// ordered is scalar for a value with bounds. NaN is beyond every limit.
func ordered[T cmp.Ordered](kind string, field *T, read func(string) (T, error), write func(T) string) value {
	v := scalar(kind, field, read, write)
	v.below = func(limit string) bool { l, err := read(limit); return err != nil || !(*field >= l) }
	v.above = func(limit string) bool { l, err := read(limit); return err != nil || !(*field <= l) }
	return v
}

func same(s string) string { return s }

func text(kind string, field *string) value {
	v := scalar(kind, field, func(s string) (string, error) { return s, nil }, same)
	v.text = true
	return v
}

func boolean(field *bool) value {
	return scalar("bool", field, func(s string) (bool, error) {
		v, err := strconv.ParseBool(s)
		if err != nil {
			return false, errors.New("not true or false")
		}
		return v, nil
	}, strconv.FormatBool)
}

func duration(field *time.Duration) value {
	return ordered("duration", field, func(s string) (time.Duration, error) {
		v, err := time.ParseDuration(s)
		if err != nil {
			return 0, errors.New("not a duration; write a number and a unit, like 500ms or 2s")
		}
		return v, nil
	}, time.Duration.String)
}

func fraction(field *float64) value {
	return ordered("fraction", field, func(s string) (float64, error) {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return 0, errors.New("not a number; write a fraction like 0.01")
		}
		return v, nil
	}, func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) })
}

// whole is a number that is not negative.
type whole interface{ int64 | uint64 }

func count[N whole](field *N) value {
	return ordered("number", field, func(s string) (N, error) {
		v, err := strconv.ParseUint(s, 10, 64)
		switch {
		case err == nil && v > math.MaxInt64, errors.Is(err, strconv.ErrRange):
			return 0, fmt.Errorf("at most %d", int64(math.MaxInt64))
		case err != nil:
			return 0, errors.New("not a whole number of at least 0")
		}
		return N(v), nil
	}, func(v N) string { return fmt.Sprint(v) })
}

// size is a number of bytes, which may be given in KiB, MiB or GiB.
func size[N whole](field *N) value {
	return ordered("size", field,
		func(s string) (N, error) { n, err := readSize(s); return N(n), err }, func(n N) string { return writeSize(uint64(n)) })
}

// sizeUnits are the units of a size, the largest first.
var sizeUnits = []struct {
	suffix string
	bytes  uint64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

func readSize(s string) (uint64, error) {
	digits, unit := s, uint64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			digits, unit = rest, u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return 0, errors.New("not a size; write a whole number of bytes, or one with a unit, like 512MiB or 2GiB")
	}
	return n * unit, nil
}

func writeSize(n uint64) string {
	for _, u := range sizeUnits {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatUint(n/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatUint(n, 10)
}

// several makes a value that may be given several times, from the functions that
// read and write one of its texts.
func several[T any](kind string, field *[]T, read func(string) (T, error), write func(T) string) value {
	v := value{kind: kind, field: field}
	v.list = func() (texts []string) {
		for _, one := range *field {
			texts = append(texts, write(one))
		}
		return texts
	}
	v.get = func() string { return strings.Join(v.list(), "; ") }
	v.set = func(texts []string) error {
		var all []T
		for _, t := range texts {
			one, err := read(t)
			if err != nil {
				return err
			}
			all = append(all, one)
		}
		*field = all
		return nil
	}
	return v
}

// urls is a list of base URLs, in which one text may have several, with commas
// between them.
func urls(field *[]string) value {
	v := several("url[,url]", field, func(raw string) (string, error) {
		if err := checkURL(raw); err != nil {
			return "", fmt.Errorf("%q: %w", raw, err)
		}
		return strings.TrimSuffix(raw, "/"), nil
	}, same)
	each := v.set
	v.set = func(texts []string) error { return each(strings.Split(strings.Join(texts, ","), ",")) }
	return v
}

// parseReplica reads the form that formatReplica writes.
func parseReplica(s string) (Replica, error) {
	id, rest, ok1 := strings.Cut(s, "=")
	raft, api, ok2 := strings.Cut(rest, ",")
	if !ok1 || !ok2 {
		return Replica{}, fmt.Errorf("%q is not of the form id=host:port,http://host:port", s)
	}
	return Replica{ID: id, RaftAddr: raft, APIURL: api}, nil
}
