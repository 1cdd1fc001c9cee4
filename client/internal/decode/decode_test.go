package decode

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

var answers = []string{
	`{"path":"/a/é","state":"held","mode":"exclusive","limit":0,"holders":[{"session":"s","session_name":"a \"b\" \u00e9","handle":"h-1","mode":"exclusive","token":42,"granted_at":"2026-01-02T03:04:05.678901234Z"}],"waiters":3,"delay_remaining_ms":0}` + "\n",
	`{"path":"/a","state":"free","limit":0,"holders":[],"waiters":0,"delay_remaining_ms":17}`,
	`{"path":"/a","state":"held","session":"s","handle":"h","mode":"shared","token":9007199254740991,"sequencer":"shared:7:/a","granted_at":"2026-01-02T03:04:05+02:00"}`,
	`{"path":"/a","state":"queued","session":"s","handle":"h","mode":"shared","position":2}`,
	`{"path":"/a","state":"held","limit":0,"holders":[{"session":"s","session_name":"","session_meta":{"pid":"8","\\u00e9":"\\""},"handle":"","mode":"shared","token":1,"granted_at":"2026-01-02T03:04:05Z"}],"waiters":1,"delay_remaining_ms":0,"queue":[{"session":"t","session_name":"","session_meta":{},"handle":"","mode":"exclusive","position":1,"since":"2026-01-02T03:04:05Z","waiting_ms":12}]}`,
	`{"path":"/a","revision":57,"instance":41,"generation":3,"size":2,"sha256":"ab","session":"s","created_at":"2026-01-02T03:04:05Z","modified_at":"2026-01-02T03:04:05Z","content":"x\n"}`,
	`{"path":"/a","revision":57,"content_base64":"/w=="}`, `{"content_base64":""}`, `{"content_base64":"\/w=="}`, "{\"content_base64\":\"/w\n==\"}", `{"content_base64":"/w="}`,
	`{"code":"precondition_failed","operation":0,"current":{"path":"/a","revision":57}}`, `{"code":"precondition_failed","current":null}`, `{"current":{"path":"/a"},"current":{}}`, `{"code":"compacted","oldest":3,"revision":60}`, `{"revision":60}`,
	`{"released":true}`, `{"released":false}` + "\n", `{}`,
	`{"type":"about:blank","title":"Locked","status":423,"code":"lock_held","detail":"lock \"/a\" was not granted","holders":[{"session":"s","session_name":"","handle":"","mode":"shared","token":1,"granted_at":"2026-01-02T03:04:05Z"},{"session":"t","session_name":"","handle":"","mode":"shared","token":2,"granted_at":"2026-01-02T03:04:05Z"}],"delay_remaining_ms":5}`,
	`{"type":"about:blank","title":"Not the master","status":421,"code":"not_master","detail":"","master":"http://a:1"}`,
	`{"type":"about:blank","title":"Invalid argument","status":400,"code":"invalid_argument","detail":"","field":"ttl_ms"}`,
}

// outs creates one value of each type with a decoder here.
var outs = []func() any{
	func() any { return new(lockapi.Lock) },
	func() any { return new(lockapi.Grant) },
	func() any { return new(lockapi.Released) },
	func() any { return new(lockapi.Problem) },
	func() any { return new(lockapi.FileStat) },
	func() any { return new(lockapi.File) },
}

// TestAnswersAreReadFast: the decoder reads an answer with every known field
// without help from encoding/json.
func TestAnswersAreReadFast(t *testing.T) {
	for _, out := range outs {
		want, got := out(), out()
		fill(reflect.ValueOf(want).Elem())
		body, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if !readWhole(append(body, '\n'), got) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v", body, got)
		}
	}
}

// events are one of each type, in the form of the cell.
var events = []string{
	`{"revision":9,"type":"file_changed","path":"/a","instance":4,"generation":2,"size":2,"sha256":"ab","session":"s","created_at":"2026-01-02T03:04:05Z","modified_at":"2026-01-02T03:04:05.1Z","principal":"user:a","content":"x\n"}`,
	`{"revision":9,"type":"file_deleted","path":"/a","reason":"deleted","instance":4,"generation":2,"size":2,"sha256":"ab","created_at":"2026-01-02T03:04:05Z","modified_at":"2026-01-02T03:04:05Z"}`,
	`{"revision":9,"type":"lock_released","path":"/a","reason":"forced","session":"s","session_name":"n","handle":"h","mode":"shared","token":7}`,
	`{"revision":9,"type":"master_changed","epoch":3,"master":"r1"}`,
	`{"revision":9,"type":"other","path":"/a"}`,
}

// TestEventsAreReadFast: events are read without help from encoding/json.
func TestEventsAreReadFast(t *testing.T) {
	for _, text := range events {
		var want, got lockapi.CellEvent
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if !readWhole([]byte(text), &got) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}

// fill sets every exported field to a value other than zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64:
		v.SetUint(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"path":"/a","revision":7,"created_at":"2026-01-02T03:04:05Z"}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"x": "x", "y": ""}))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	}
}

// FuzzDecode compares the decoder with encoding/json.
func FuzzDecode(f *testing.F) {
	for _, answer := range slices.Concat(answers, events) {
		f.Add([]byte(answer))
	}
	for _, odd := range []string{
		`{"released":true,"released":false}`, `{"released":true}x`, "{\"released\":true}\v", `{"released": true}`, `{"Released":true}`, `{"released":null}`, `{"x":1}`, `null`, `[]`, ``,
		`{"path":"\ud800","state":"` + "\xff" + `"}`, `{"limit":007}`, `{"limit":-1}`, `{"limit":1.0}`, `{"token":18446744073709551615}`, `{"limit":9223372036854775808}`,
		`{"holders":[{"session":"a"}],"holders":[{}]}`, `{"holders":null}`, `{"queue":[],"queue":[{}]}`, `{"holders":[{"session_meta":{"a":"b"},"session_meta":{"c":"d"}}]}`, `{"holders":[{"session_meta":{"a":"b","a":"c"}}]}`, `{"holders":[{"session_meta":null}]}`, `{"holders":[{"session_meta":{"a":1}}]}`, `{"holders":[{"session_meta":{"a":"b",}}]}`, `{"granted_at":"2026"}`, `{"granted_at":null}`, "{\"path\":\"\x01\"}", `{"path":"a",}`, `{"path":"a\`,
	} {
		f.Add([]byte(odd))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, out := range append(outs, func() any { return new(lockapi.CellEvent) }) {
			got, want := out(), out()
			err := json.Unmarshal(body, want)
			if ours := JSON(body, got); (err == nil) != (ours == nil) {
				t.Fatalf("encoding/json: %v; here: %v", err, ours)
			}
			if err == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("encoding/json: %+v; here: %+v", want, got)
			}
		}
	})
}
