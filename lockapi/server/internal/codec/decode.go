package codec

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stoutlock/stout/lockapi"
)

// Decode decodes a request's body over the defaults in into, a pointer to a
// struct. An empty body is {}. Nothing is silently ignored: it refuses, by
// name, fields that are unknown, misspelled (names are case-sensitive), given
// twice, null or of another type, and data after the object.
func Decode(body []byte, into any) error {
	if len(body) == 0 {
		return nil
	}
	err := json.Unmarshal(body, into, json.RejectUnknownMembers(true))
	if err == nil && !bytes.Contains(body, []byte("null")) {
		return nil
	}
	if err := scan(body); err != nil {
		return err
	}
	if err != nil {
		return blame(err)
	}
	return nil
}

// scan checks the body's tokens: valid syntax, an object as the whole, and no
// null, which json.Unmarshal reads as zero rather than as the default. Its
// errors take precedence over the errors of json.Unmarshal.
func scan(body []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if k := d.PeekKind(); k != jsontext.KindInvalid && k != jsontext.KindBeginObject {
		return lockapi.Invalid("body", "the body is a JSON %s; it must be an object", kindName(k))
	}
	for {
		t, err := d.ReadToken()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return blame(err)
		}
		if t.Kind() == jsontext.KindNull {
			f := field(d.StackPointer())
			return lockapi.Invalid(f, "%s is null; omit it to get the default", f)
		}
	}
}

// blame turns an error of the JSON library into one that names the field.
func blame(err error) error {
	if syntax := new(jsontext.SyntacticError); errors.As(err, &syntax) {
		f := field(syntax.JSONPointer)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return lockapi.Invalid(f, "%q is given more than once", lockapi.Clip(syntax.JSONPointer.LastToken()))
		}
		return lockapi.Invalid(f, "the body is not valid JSON: %.120s at byte %d", syntax.Err, syntax.ByteOffset)
	}
	semantic := new(json.SemanticError)
	if !errors.As(err, &semantic) {
		return lockapi.Invalid("body", "the body is not valid JSON: %.200s", err)
	}
	f := field(semantic.JSONPointer)
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return lockapi.Invalid(f, "the field %s is unknown; names are case-sensitive", strconv.Quote(f))
	case errors.Is(err, strconv.ErrRange), errors.Is(err, strconv.ErrSyntax):
		return lockapi.Invalid(f, "%s is %.40s; it must be %s within its bounds", f, semantic.JSONValue, wanted(semantic.GoType))
	}
	return lockapi.Invalid(f, "%s is a JSON %s; it must be %s", f, kindName(semantic.JSONKind), wanted(semantic.GoType))
}

// field returns the name of the field that a pointer leads into. It is "body"
// for the whole body, and for a field with an empty name, which a problem
// document cannot express. An element of a list is shown with its index:
// then[0].put.path.
func field(p jsontext.Pointer) string {
	var name strings.Builder
	for i, token := range slices.Collect(p.Tokens()) {
		_, err := strconv.Atoi(token)
		switch {
		case i == 0:
			name.WriteString(token)
		case i == 1 && err != nil:
			return cmp.Or(lockapi.Clip(name.String()), "body")
		case err == nil:
			name.WriteString("[" + token + "]")
		default:
			name.WriteString("." + token)
		}
	}
	return cmp.Or(lockapi.Clip(name.String()), "body")
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 't', 'f':
		return "boolean"
	case '{':
		return "object"
	case '[':
		return "array"
	}
	return k.String()
}

// wanted describes to the caller which values a field of type t accepts.
func wanted(t reflect.Type) string {
	switch {
	case t == nil:
		return "of another type"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Map:
		return "an object of strings"
	case t == reflect.TypeFor[[]byte]():
		return "a string in base64"
	case t.Kind() == reflect.Slice:
		return "an array"
	case t.Kind() == reflect.Struct:
		return "an object"
	}
	return "a whole number"
}
