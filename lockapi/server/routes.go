package server

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/stoutlock/stout/lockapi"
)

// route is one operation of the API. Its template is the path as openapi.yaml
// writes it and metrics label it; pattern is the router's spelling. What has no
// pattern stands for all paths that are none.
type route struct {
	method, template, pattern string
	handle                    func(*exchange) error
	params                    []param // of the query; others are refused
	body                      int64   // the longest that it takes; 0 is lockapi.MaxBodyBytes
}

// table is the operations that a router knows.
type table []route

const (
	routeSession   = lockapi.RouteSessions + "/{id}"
	routeKeepalive = routeSession + "/keepalive"
	routeReplace   = lockapi.RouteMembers + "/{id}/replace"
	patternReplace = lockapi.RouteMembers + "/:id/replace"
	routeLock      = lockapi.RouteLocks + "/{path}"
	patternSession = lockapi.RouteSessions + "/:id"
	patternLock    = lockapi.RouteLocks + "/*path"
	routeFile      = lockapi.RouteFiles + "/{path}"
	patternFile    = lockapi.RouteFiles + "/*path"
)

// routes are all operations, in the order of the contract.
var routes = table{
	{method: http.MethodPost, template: lockapi.RouteSessions, pattern: lockapi.RouteSessions, handle: openSession},
	{method: http.MethodGet, template: lockapi.RouteSessions, pattern: lockapi.RouteSessions, handle: listSessions,
		params: []param{paramAfter, paramLimit, paramConsistency}},
	{method: http.MethodPost, template: routeKeepalive, pattern: patternSession + "/keepalive", handle: keepalive},
	{method: http.MethodGet, template: routeSession, pattern: patternSession, handle: readSession,
		params: []param{paramConsistency}},
	{method: http.MethodDelete, template: routeSession, pattern: patternSession, handle: closeSession},
	{method: http.MethodGet, template: lockapi.RouteLocks, pattern: lockapi.RouteLocks, handle: listLocks,
		params: []param{paramPrefix, paramAfter, paramLimit, paramConsistency}},
	{method: http.MethodPut, template: routeLock, pattern: patternLock, handle: acquire},
	{method: http.MethodGet, template: routeLock, pattern: patternLock, handle: readLock,
		params: []param{paramWaiters, paramConsistency}},
	{method: http.MethodDelete, template: routeLock, pattern: patternLock, handle: release,
		params: []param{paramSession, paramHandle, paramToken}},
	{method: http.MethodGet, template: lockapi.RouteSequencers, pattern: lockapi.RouteSequencers, handle: checkSequencer,
		params: []param{paramValue, paramConsistency}},
	{method: http.MethodGet, template: lockapi.RouteFiles, pattern: lockapi.RouteFiles, handle: listFiles,
		params: []param{paramPrefix, paramDelimiter, paramContent, paramAfter, paramLimit, paramConsistency}},
	{method: http.MethodDelete, template: lockapi.RouteFiles, pattern: lockapi.RouteFiles, handle: deleteFilesBelow,
		params: []param{paramBelow, paramOnBehalf, paramSequencer}},
	{method: http.MethodPut, template: routeFile, pattern: patternFile, handle: putFile, body: lockapi.MaxFileBytes,
		params: []param{paramOnBehalf, paramEphemeral, paramSequencer, paramAs, paramContent}},
	{method: http.MethodPost, template: routeFile, pattern: patternFile, handle: createSequential, body: lockapi.MaxFileBytes,
		params: []param{paramOnBehalf, paramEphemeral, paramSequencer}},
	{method: http.MethodGet, template: routeFile, pattern: patternFile, handle: readFile,
		params: []param{paramAs, paramConsistency}},
	{method: http.MethodDelete, template: routeFile, pattern: patternFile, handle: deleteFile,
		params: []param{paramOnBehalf, paramSequencer}},
	{method: http.MethodPost, template: lockapi.RouteTransactions, pattern: lockapi.RouteTransactions, handle: transact, body: lockapi.MaxTransactionBytes},
	{method: http.MethodGet, template: lockapi.RouteEvents, pattern: lockapi.RouteEvents, handle: readEvents,
		params: []param{paramAfter, paramPaths, paramPrefixes, paramTypes, paramContent, paramWaitMS, paramLimit}},
	{method: http.MethodGet, template: lockapi.RouteCell, pattern: lockapi.RouteCell, handle: readCell},
	{method: http.MethodPost, template: lockapi.RouteTransfer, pattern: lockapi.RouteTransfer, handle: transfer},
	{method: http.MethodGet, template: lockapi.RouteReplica, pattern: lockapi.RouteReplica, handle: readReplica},
	{method: http.MethodGet, template: lockapi.RouteMembers, pattern: lockapi.RouteMembers, handle: listMembers,
		params: []param{paramConsistency}},
	{method: http.MethodPost, template: routeReplace, pattern: patternReplace, handle: replaceMember,
		params: []param{paramForce}},
	{method: http.MethodGet, template: lockapi.RouteOpenAPI, pattern: lockapi.RouteOpenAPI, handle: readOpenAPI},
	{method: http.MethodGet, template: lockapi.RouteLive, pattern: lockapi.RouteLive, handle: live},
	{method: http.MethodGet, template: lockapi.RouteReady, pattern: lockapi.RouteReady, handle: ready},
	{method: http.MethodGet, template: lockapi.RouteMetrics, pattern: lockapi.RouteMetrics, handle: readMetrics},
}

// maxBody is the longest body that the route takes.
func (r *route) maxBody() int64 { return cmp.Or(r.body, lockapi.MaxBodyBytes) }

// maxBody is the longest body of a request that is read at all, before the
// router has seen it: that of any route that it may be for.
func (t table) maxBody(r *http.Request) int64 {
	most := int64(lockapi.MaxBodyBytes)
	for i := range t {
		of := &t[i]
		if of.body > most && of.method == r.Method && strings.HasPrefix(r.URL.EscapedPath(), of.fixed()) {
			most = of.body
		}
	}
	return most
}

// fixed is the part of the pattern before its first variable.
func (r *route) fixed() string {
	if i := strings.IndexAny(r.pattern, ":*"); i >= 0 {
		return r.pattern[:i]
	}
	return r.pattern
}

// newEngine routes calls; peer says that they come from another member.
func (s *Server) newEngine(peer bool) *gin.Engine {
	return s.engineOf(peer, routes, errNoRoute)
}

// engineOf routes calls of the given routes; otherwise answers what is none of
// them.
func (s *Server) engineOf(peer bool, routes table, otherwise func(*exchange) error) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.UseRawPath = true
	e.UnescapePathValues = false
	e.RedirectTrailingSlash = false
	e.HandleMethodNotAllowed = true
	for _, r := range routes {
		h := s.handler(r, peer)
		e.Handle(r.method, r.pattern, h)
		if r.method == http.MethodGet {
			// The connection leaves out the body of a reply to HEAD.
			e.Handle(http.MethodHead, r.pattern, h)
		}
	}
	e.NoRoute(s.handler(route{template: "other", handle: otherwise}, peer))
	e.NoMethod(s.handler(route{template: "other", handle: errNoMethod}, peer))
	return e
}

func errNoRoute(x *exchange) error {
	return lockapi.Errorf(lockapi.CodeNotFound, "there is no route %s; %s lists the routes", x.path(), lockapi.RouteOpenAPI)
}

func errNoMethod(x *exchange) error {
	return lockapi.Errorf(lockapi.CodeMethodNotAllowed, "%s takes %s, not %.32q",
		x.path(), x.c.Writer.Header().Get("Allow"), x.c.Request.Method)
}
