package lockapi

import (
	"cmp"
	_ "embed"
	"regexp"
	"strings"
	"sync"
)

// openAPI is the contract with short forms for what each operation repeats.
//
//go:embed openapi.in.yaml
var openAPI string

// OpenAPI returns the contract as an OpenAPI 3.1 document in YAML, as a replica
// serves it at RouteOpenAPI. The caller must not modify it.
var OpenAPI = sync.OnceValue(func() []byte {
	document := openAPI[strings.Index(openAPI, "openapi: "):] // without the comment
	return []byte(shortForm.ReplaceAllStringFunc(document, func(line string) string {
		of := shortForm.FindStringSubmatch(line)
		return spelled[of[2]](of[1], strings.Fields(of[3]))
	}))
})

// shortForm matches a line of a short form: its indent, its name and its words.
var shortForm = regexp.MustCompile(`(?m)^( *)(\$errors|\$headers|\$json|\$problem|- \$refs): (.*)$`)

// spelled expands each short form.
var spelled = map[string]func(indent string, words []string) string{
	// The error responses of an operation, by status. A word "status=Name"
	// replaces the usual response of the status; that of 404 is
	// SessionNotFound.
	"$errors": func(indent string, words []string) string {
		lines := make([]string, 0, len(words)+1)
		for _, w := range words {
			status, name, _ := strings.Cut(w, "=")
			lines = append(lines, indent+`"`+status+`": `+ref("responses", cmp.Or(name, errorResponses[status])))
		}
		return strings.Join(append(lines, indent+"default: "+ref("responses", "Failure")), "\n")
	},
	// The headers of a response.
	"$headers": headers,
	// A JSON body.
	"$json": func(indent string, words []string) string { return content(indent, "application/json", words[0]) },
	// A problem document and its headers.
	"$problem": func(indent string, words []string) string {
		return headers(indent, words) + "\n" + content(indent, "application/problem+json", "Problem")
	},
	// The parameters of an operation.
	"- $refs": func(indent string, words []string) string {
		lines := make([]string, len(words))
		for i, w := range words {
			lines[i] = indent + `- $ref: "#/components/parameters/` + w + `"`
		}
		return strings.Join(lines, "\n")
	},
}

func headers(indent string, words []string) string {
	lines := []string{indent + "headers:"}
	for _, w := range words {
		lines = append(lines, indent+"  "+cmp.Or(headerNames[w], "Stout-"+w)+": "+ref("headers", w+"Header"))
	}
	return strings.Join(lines, "\n")
}

func content(indent, mediaType, schema string) string {
	return indent + "content:\n" + indent + "  " + mediaType + ":\n" + indent + "    schema: " + ref("schemas", schema)
}

// errorResponses names the usual response of each status.
var errorResponses = map[string]string{
	"400": "InvalidArgument", "401": "Unauthenticated", "403": "CrossOrigin", "404": "SessionNotFound", "409": "Conflict", "410": "Compacted",
	"412": "Precondition", "413": "TooLarge", "421": "NotMaster", "423": "Locked", "429": "TooMany", "503": "Unavailable",
}

// headerNames lists the headers without the prefix Stout-.
var headerNames = map[string]string{
	"ETag": "ETag", "PageETag": "ETag", "LastModified": "Last-Modified", "Location": "Location", "Page": "Location", "RetryAfter": "Retry-After", "Allow": "Allow",
}

func ref(kind, name string) string { return `{$ref: "#/components/` + kind + "/" + name + `"}` }
