package server

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/stoutlock/stout/lockapi"
)

// route is one operation of the API. Its template is the path as openapi.yaml
// writes it and metrics label it; pattern is the router's spelling.
type route struct {
	method, template, pattern string
	handle                    func(*exchange) error
}

const (
	routeSession   = lockapi.RouteSessions + "/{id}"
	routeKeepalive = routeSession + "/keepalive"
	routeReplace   = lockapi.RouteMembers + "/{id}/replace"
	patternReplace = lockapi.RouteMembers + "/:id/replace"
	routeLock      = lockapi.RouteLocks + "/{path}"
	patternSession = lockapi.RouteSessions + "/:id"
	patternLock    = lockapi.RouteLocks + "/*path"
)

// routes are all operations, in the order of the contract.
var routes = []route{
	{http.MethodPost, lockapi.RouteSessions, lockapi.RouteSessions, openSession},
	{http.MethodGet, lockapi.RouteSessions, lockapi.RouteSessions, listSessions},
	{http.MethodPost, routeKeepalive, patternSession + "/keepalive", keepalive},
	{http.MethodGet, routeSession, patternSession, readSession},
	{http.MethodDelete, routeSession, patternSession, closeSession},
	{http.MethodGet, lockapi.RouteLocks, lockapi.RouteLocks, listLocks},
	{http.MethodPut, routeLock, patternLock, acquire},
	{http.MethodGet, routeLock, patternLock, readLock},
	{http.MethodDelete, routeLock, patternLock, release},
	{http.MethodGet, lockapi.RouteSequencers, lockapi.RouteSequencers, checkSequencer},
	{http.MethodGet, lockapi.RouteCell, lockapi.RouteCell, readCell},
	{http.MethodPost, lockapi.RouteTransfer, lockapi.RouteTransfer, transfer},
	{http.MethodGet, lockapi.RouteReplica, lockapi.RouteReplica, readReplica},
	{http.MethodGet, lockapi.RouteMembers, lockapi.RouteMembers, listMembers},
	{http.MethodPost, routeReplace, patternReplace, replaceMember},
	{http.MethodGet, lockapi.RouteOpenAPI, lockapi.RouteOpenAPI, readOpenAPI},
	{http.MethodGet, lockapi.RouteLive, lockapi.RouteLive, live},
	{http.MethodGet, lockapi.RouteReady, lockapi.RouteReady, ready},
	{http.MethodGet, lockapi.RouteMetrics, lockapi.RouteMetrics, readMetrics},
}

// newEngine routes calls; peer says that they come from another member.
func (s *Server) newEngine(peer bool) *gin.Engine {
	return s.engineOf(peer, routes, errNoRoute)
}

// engineOf routes calls of the given routes; otherwise answers what is none of them.
func (s *Server) engineOf(peer bool, routes []route, otherwise func(*exchange) error) *gin.Engine {
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
