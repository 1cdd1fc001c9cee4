package lockapi

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// An event is one flat object, and survives a round trip.
func TestCellEventIsFlat(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	text := "x"
	stat := FileStat{Path: "/a", Revision: 58, Instance: 41, Generation: 3, SHA256: "e3", Session: "s1", CreatedAt: at, ModifiedAt: at}
	for _, test := range []struct {
		event CellEvent
		want  string
	}{
		{
			CellEvent{Revision: 58, Type: EventFileChanged, Path: "/a", File: &File{FileStat: stat, Content: &text}},
			`{"revision":58,"type":"file_changed","path":"/a","instance":41,"generation":3,"size":0,"sha256":"e3","session":"s1","created_at":"2026-01-02T03:04:05Z","modified_at":"2026-01-02T03:04:05Z","content":"x"}`,
		},
		{
			CellEvent{Revision: 59, Type: EventLockReleased, Path: "/a", Reason: ReasonForced, Hold: &EventHold{Session: "s1", Mode: Shared, Token: 7}},
			`{"revision":59,"type":"lock_released","path":"/a","reason":"forced","session":"s1","session_name":"","handle":"","mode":"shared","token":7}`,
		},
		{
			CellEvent{Revision: 60, Type: EventMasterChanged, Master: &EventMaster{Epoch: 3, Master: "r2"}},
			`{"revision":60,"type":"master_changed","epoch":3,"master":"r2"}`,
		},
		{CellEvent{Revision: 61, Type: "moon_rose"}, `{"revision":61,"type":"moon_rose"}`},
	} {
		raw, err := json.Marshal(test.event)
		if err != nil || string(raw) != test.want {
			t.Errorf("%s: %v\n got %s\nwant %s", test.event.Type, err, raw, test.want)
		}
		var back CellEvent
		if err := json.Unmarshal(raw, &back); err != nil || !reflect.DeepEqual(back, test.event) {
			t.Errorf("%s came back as %+v, %v", test.event.Type, back, err)
		}
	}
}

// A field with the same name in another type is not part of the event.
func TestCellEventWithStrangeFields(t *testing.T) {
	for text, want := range map[string]CellEvent{
		`{"revision":1,"type":"file_deleted","path":"/a","mode":420,"master":{}}`: {Revision: 1, Type: EventFileDeleted, Path: "/a", File: &File{FileStat: FileStat{Path: "/a", Revision: 1}}},
		`{"revision":2,"type":"lock_acquired","path":"/a","size":"L"}`:            {Revision: 2, Type: EventLockAcquired, Path: "/a", Hold: &EventHold{}},
		`{"revision":3,"type":"master_changed","session":7,"epoch":4}`:            {Revision: 3, Type: EventMasterChanged, Master: &EventMaster{Epoch: 4}},
		`{"revision":4,"type":"moon_rose","token":"full"}`:                        {Revision: 4, Type: "moon_rose"},
	} {
		var got CellEvent
		if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s came as %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{`{"revision":1,"type":"file_deleted","path":"/a","size":"L"}`, `{"revision":1,"type":"lock_acquired","token":"x"}`,
		`{"revision":"1","type":"moon_rose"}`, `{"revision":1`, `[]`} {
		if err := json.Unmarshal([]byte(text), new(CellEvent)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

// Each kind of result in a transaction is recognized.
func TestOperationResults(t *testing.T) {
	const text = `{"succeeded":true,"revision":60,"results":[{"path":"/a","revision":60,"instance":1,"generation":2,"size":0,"sha256":"","created_at":"2026-01-02T03:04:05Z","modified_at":"2026-01-02T03:04:05Z"},` +
		`{"path":"/x","state":"held","session":"s1","handle":"","mode":"exclusive","token":42},{"deleted":false},{"released":true},null]}`
	var got TransactionResult
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	r := got.Results
	if len(r) != 5 || r[0].File == nil || r[0].File.Generation != 2 || r[1].Grant == nil || r[1].Grant.Token != 42 ||
		r[2].Deleted == nil || r[2].Deleted.Deleted || r[3].Released == nil || !r[3].Released.Released || r[4] != (OperationResult{}) {
		t.Fatalf("results are %+v", r)
	}
	if raw, err := json.Marshal(got); err != nil || string(raw) != text {
		t.Errorf("%v\n got %s\nwant %s", err, raw, text)
	}
}
