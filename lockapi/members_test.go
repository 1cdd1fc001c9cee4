package lockapi

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestDirectories(t *testing.T) {
	for id, ok := range map[string]bool{
		"0123456789abcdef": true, "ffffffffffffffff": true,
		"": false, "0123456789ABCDEF": false, "0123456789abcde": false, "0123456789abcdef0": false,
		"0123456789abcde/": false, "g123456789abcdef": false, strings.Repeat("x", 4000): false,
	} {
		req := ReplaceMemberRequest{Directory: id}
		err := req.Validate()
		if (err == nil) != ok {
			t.Errorf("directory %.40q: %v", id, err)
		}
		if e := new(Error); err != nil && (!errors.As(err, &e) || e.Field != "directory" || len(e.Detail) > 300) {
			t.Errorf("directory %.40q: %v", id, err)
		}
	}
}

func TestDirectoriesThatAreNamed(t *testing.T) {
	for id, ok := range map[string]bool{"": true, "0123456789abcdef": true, "0123": false} {
		for field, err := range map[string]error{
			"in_place_of": (&ReplaceMemberRequest{Directory: "0123456789abcdef", InPlaceOf: id}).Validate(),
			"directory":   (&RemoveMemberRequest{Directory: id}).Validate(),
		} {
			if e := new(Error); (err == nil) != ok || err != nil && (!errors.As(err, &e) || e.Field != field) {
				t.Errorf("%s %q: %v", field, id, err)
			}
		}
	}
}

// force travels in the query only.
func TestForceIsNotInTheBody(t *testing.T) {
	raw, err := json.Marshal(ReplaceMemberRequest{Directory: "0123456789abcdef", Force: true})
	if err != nil || string(raw) != `{"directory":"0123456789abcdef"}` {
		t.Errorf("%s, %v", raw, err)
	}
}
