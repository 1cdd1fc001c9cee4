package lockapi

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a path.
const (
	MaxPathBytes    = 1024
	MaxPathSegments = 32
	MaxSegmentBytes = 255
)

// ValidatePath reports an invalid path as an invalid_argument on the field
// "path", or nil. A path has at most 1024 bytes and consists of 1 to 32
// segments, each preceded by "/". A segment is 1 to 255 bytes of UTF-8 without
// control characters (Unicode's Cc), and is neither "." nor "..".
func ValidatePath(path string) error {
	switch {
	case path == "":
		return Invalid("path", "the path is empty; it must start with %q and have at least one segment", "/")
	case path[0] != '/':
		return Invalid("path", "path %q does not start with %q", Clip(path), "/")
	case len(path) > MaxPathBytes:
		return Invalid("path", "the path has %d bytes; at most %d are allowed", len(path), MaxPathBytes)
	case !utf8.ValidString(path):
		return Invalid("path", "path %q is not valid UTF-8", Clip(path))
	}
	if n := strings.Count(path, "/"); n > MaxPathSegments {
		return Invalid("path", "the path has %d segments; at most %d are allowed", n, MaxPathSegments)
	}
	i := 0
	for s := range strings.SplitSeq(path[1:], "/") {
		i++
		switch {
		case s == "":
			return Invalid("path", "segment %d of path %q is empty", i, Clip(path))
		case s == "." || s == "..":
			return Invalid("path", "segment %d of path %q is %q, which is not allowed", i, Clip(path), s)
		case len(s) > MaxSegmentBytes:
			return Invalid("path", "segment %d of the path has %d bytes; at most %d are allowed", i, len(s), MaxSegmentBytes)
		}
		if strings.ContainsFunc(s, unicode.IsControl) {
			return Invalid("path", "segment %d of path %q has a control character", i, Clip(path))
		}
	}
	return nil
}

// EscapePath writes a valid path for use in a URL. Each segment is
// percent-encoded separately.
func EscapePath(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}

// UnescapePath decodes the percent-encoding of a path in a URL and validates the
// result. %2F and / are the same separator: clients that are generated from an
// OpenAPI document encode the whole path as one segment.
func UnescapePath(escaped string) (string, error) {
	path := escaped
	if strings.Contains(escaped, "%") {
		var err error
		if path, err = url.PathUnescape(escaped); err != nil {
			return "", Invalid("path", "path %q: %v", Clip(escaped), err)
		}
	}
	if strings.HasPrefix(path, "//") {
		return "", Invalid("path", "path %q begins with two slashes; omit the first one in a URL: the lock /jobs/nightly is %s/jobs/nightly", Clip(path), RouteLocks)
	}
	if err := ValidatePath(path); err != nil {
		return "", err
	}
	return path, nil
}
