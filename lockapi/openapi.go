package lockapi

import _ "embed"

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI is the contract as an OpenAPI 3.1 document in YAML, as a replica
// serves it at RouteOpenAPI. The caller must not change it.
func OpenAPI() []byte { return openAPI }
