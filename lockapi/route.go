package lockapi

import "strings"

// Route returns the kind of a call's path, for spans and metrics: the path of a
// lock is "/v1/locks/{}", and a keepalive's is "/v1/sessions/{}/keepalive".
func Route(path string) string {
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 3)
	if len(parts) < 3 {
		return path
	}
	out := "/" + parts[0] + "/" + parts[1] + "/{}"
	if parts[1] != "sessions" {
		return out
	}
	if _, action, ok := strings.Cut(parts[2], "/"); ok {
		out += "/" + action
	}
	return out
}
